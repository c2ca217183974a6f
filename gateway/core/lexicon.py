"""The words and patterns by which a workload shows in a text, as closed sets and compiled expressions."""
# ruff: noqa: RUF001 - signs of mathematics look like letters

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programming languages, formats and systems whose name alone speaks of code.
CODE_NAMES: Final = _words(
    """
    python javascript typescript java c++ c# golang php kotlin scala haskell clojure
    erlang elixir fortran cobol matlab lua bash powershell zsh awk sed grep sql mysql postgres
    postgresql sqlite mongodb redis html css scss json yaml xml toml csv regex regexp dockerfile docker
    kubernetes kubectl terraform ansible numpy pandas pytorch tensorflow django fastapi vue
    svelte nodejs npm webpack jquery hibernate linq dotnet xaml vba verilog
    vhdl cuda opencl git github cron crontab nginx apache linux unix ubuntu stdin stdout
    api sdk cli orm ocaml racket lisp prolog solidity graphql tokio asyncio goroutine
    pytest junit maven gradle cmake makefile ansi utf ascii oop crud mutex array arrays subarray
    substring substrings nums hashmap dataframe stacktrace traceback codebase localhost dropdown
    middleware boolean pointer pointers async regexes iterator kwargs struct
    flexbox tailwind usestate useeffect usememo useref jsx tsx nextjs nuxt vite yarn pnpm conda rustc clippy
    eslint linter polyfill debounce memoize memoization localstorage iframe cors jwt oauth webhook websocket
    websockets grpc protobuf kafka rabbitmq elasticsearch grafana prometheus jenkins gitlab bitbucket rebase
    submodule monorepo dotfiles shebang heredoc symlink symlinks systemd systemctl cronjob cronjobs
    logrotate iptables rsync curl wget sudo chmod chown ssh tmux vim neovim emacs vscode xcode gdb valgrind
    strace segfault deadlock semaphore malloc realloc printf println enum enums typedef tuples goroutines
    mutexes threadpool typeerror valueerror keyerror modulenotfounderror importerror nullpointerexception
    indexerror playwright rspec mypy pylint sqlalchemy mongoose hadoop airflow swiftui laravel
    symfony nestjs openapi dijkstra quicksort mergesort heapsort bfs dfs btree leetcode codegen transpile
    minify webassembly wasm arduino fpga mqtt autohotkey
    """
)

# Words of the trade that say code together with another sign.
CODE_WORDS: Final = _words(
    """
    code coding program function functions method methods class classes script snippet variable
    variables array arrays string strings integer integers boolean loop loops recursion recursive
    recursively algorithm algorithms compile compiler compiles bug debug refactor exception traceback
    stacktrace syntax query queries table column columns database schema implement implementation
    implementing parse parser parsing parameter parameters argument arguments return returns pointer
    struct stack queue tree trees linked dictionary hash hashmap tuple list lists iterate sort sorted
    sorting binary byte bytes file files directory directories folder command commands terminal endpoint
    server backend frontend component module library package import async thread threads cache unit
    tests regular expression expressions null exit stream input output int float char repository commit
    branch merge index lambda iterator generator decorator interface inheritance constructor nodes node
    graph graphs substring palindrome vertex nums runtime complexity borrow deserialize serialize
    manifest deploy deployment formula cell spreadsheet excel sheets latex software website webpage app
    spring express scheme react assembly rust ruby swift shell flask node angular julia perl
    """
)

# A request for something that is code, by its object: "write a small function", "fix this query".
CODE_REQUEST: Final = re.compile(
    r"\b(?:write|create|make|implement|give|show|build|generate|develop|design|code|need|want|provide|"
    r"fix|debug|refactor|optimi[sz]e|complete|convert|translate|port|rewrite|explain|review|improve|"
    r"simplify|add|define|construct|solve|document)\b[^.?!\n]{0,60}?\b(?:functions?|programs?|scripts?|"
    r"code|snippet|quer(?:y|ies)|regex|regexp|regular expression|class(?:es)?(?= (?:in|that|called|"
    r"named|for|to|which|with))|one-?liner|api|endpoint|dockerfile|makefile|manifest|cron ?job|"
    r"web ?page|webpage|html|css|sql|algorithm|unit tests?|data structure|web app|app|bot|parser|"
    r"compiler|method|stored procedure|macro|formula in|linked list|binary (?:search )?tree|hash ?map|"
    r"json schema|cli|component|decorator|middleware|terraform)\b"
)
# "in Python", "using C++", "with numpy": the language that the answer is to be written in.
CODE_IN: Final = re.compile(
    r"\b(?:in|using|with|to|into|of|on|for|from|your|an?|the|this|my)\s+(?:plain |pure |modern |some |"
    r"simple |only )?(?:python\d?|javascript|typescript|c\+\+|c#|f#|golang|php|kotlin|haskell|clojure|"
    r"erlang|elixir|fortran|cobol|matlab|bash|powershell|awk|sed|sql|mysql|postgres(?:ql)?|sqlite|"
    r"html5?|css|regex|pandas|numpy|pytorch|node\.?js|django|jquery|verilog|vba|ocaml|solidity|cuda|"
    r"graphql|google sheets|terraform|kubernetes|tensorflow|linux|racket|prolog|objective-c|typescript|"
    r"unix|shell)(?![\w-])"
    r"|\b(?:in|using|with|into)\s+(?:java(?! or|,)|go(?=[.,:?!]|$)|rust|ruby|perl|scala|julia|lua|react|"
    r"vue|flask|swift|assembly|excel|dart|elm|oracle|scheme)(?![\w-])"
    r"|\b(?:use|write|solve|implement|program|code)\b[^.?!\n]{0,40}\b(?:c|r|go|java|rust|ruby)(?= (?:to|"
    r"code|program|function|script)\b|[.,:?!]|$)"
)
# What only code, logs of programs and markup contain: beginnings of lines ...
CODE_LINE: Final = re.compile(
    r"\s*(?:def \w+\(|class \w+[:({]|import [\w.]+$|from [\w.]+ import|#include|func \w+\(|fn \w+\(|"
    r"public |private |package \w|using [\w.]+;|(?:const|let|var) \w+ ?=|return\b.*;|diff --git|@@ -\d|"
    r">>> |\$ \w+|traceback \(most|if \(|for \(|while \(|}|elif |create table\b|insert into \w)"
)
# ... and signs within them. Each alternative begins with a literal, so that the search can skip.
CODE_SIGN: Final = re.compile(
    r"\.\w+\([^)\n]{0,60}\)|\(\)|=> ?[{(]|!==|===|[;{]\s*$|::\w|->\w|error:|exception\b|exit code\b|"
    r"undefined\b|0x[0-9a-f]+|</?(?:div|html|body|span|script|table|head|p|a|ul|li|br|img|form|input|"
    r"button|style)\b[^>\n]{0,60}>",
    re.MULTILINE,
)
SQL: Final = re.compile(r"\bselect\b.{1,80}\bfrom\b.{1,60}(?:\bwhere\b|\bjoin\b|;)", re.DOTALL)
# How somebody asks about a command line or a program without naming a language.
CODE_TASK: Final = re.compile(
    r"\b(?:how (?:do|can|to|would) (?:i |you |we )?(?:\w+ ){0,4}(?:list|string|array|dict|dictionary|"
    r"dataframe|column|index|thread|variable|class|regex|module|file)s?\b|(?:shell|terminal|bash|linux|"
    r"this) command\b|one[- ]liner\b|path/to/|command[- ]line\b|flags? (?:do|for|of)\b|"
    r"programming exercise\b|borrow checker\b|pull request\b|stack ?trace\b|unit tests?\b|event loop\b|"
    r"race condition\b|memory leak\b|null pointer\b|merge conflict\b|least recently used\b|"
    r"linked list\b|binary (?:search )?tree\b|hash (?:map|table)\b|depth-first\b|breadth-first\b|"
    r"sorting algorithm\b|return type\b|foreign key\b|primary key\b|time complexity\b|"
    r"simulate\b.{0,120}\b(?:plot|print)\b|constant time\b|source code\b|web scraper\b|rest api\b|"
    r"segmentation fault\b|undefined is not\b)"
)
# An order of what is done with files and processes.
CODE_ORDER: Final = re.compile(
    r"^(?:find|list|print|display|search|remove|delete|count|copy|rename|archive|compress|show|replace|"
    r"get|recursively|append|create|kill|mount|set|sort|check|extract)\b[^\n]{0,120}(?:\bfiles?\b|"
    r"\bdirector(?:y|ies)\b|\bfolders?\b|\bsubdirector\w+|\$\w+\b(?!\$)|\"\*|\*\.\w|(?<!\w)/\w+/\w*|"
    r"\bsymlinks?\b|\bprocess(?:es)?\b|\bpermissions?\b|\bstdin\b)"
)

NUMBER_WORDS: Final = _words(
    """
    two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred thousand
    million half third quarter dozen twice double triple
    """
)
LATEX_SIGNS: Final = "√∑∫≤≥≠∞∠△×÷±∈∪∩𝑥𝑦"
LATEX: Final = re.compile(
    r"\\(?:[a-z]{2,}|[({\[|,;])|\$(?=[^$\n]*[\\^_={}])[^$\n]{1,200}\$|\$[^$\s]{1,12}\$|"
    rf"[{LATEX_SIGNS}]"
)
LATEX_TEXT: Final = re.compile(
    r"\\(?:section|subsection|emph|cite|begin\{(?:abstract|document|itemize|figure|table)|textit|title|"
    r"author|item|usepackage|label|ref)\b"
)
NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
OPERATOR: Final = re.compile(r"[=<>≤≥^]\s?[-\w(\\]|[+*/×÷]\s?\d|%")

MATH_WORDS: Final = _words(
    """
    solve calculate compute evaluate simplify integral integrate derivative differentiate antiderivative
    equation equations inequality polynomial quadratic triangle triangles rectangle square circle radius
    diameter perimeter circumference area volume angle angles degrees hypotenuse parallelogram trapezoid
    polygon hexagon sphere cylinder cone cube slope intercept parabola ellipse hyperbola matrix matrices
    determinant eigenvalue eigenvalues vector vectors probability permutation permutations combinations
    factorial prime divisor divisors divisible multiple multiples remainder quotient fraction fractions
    decimal percent percentage ratio proportion average mean median variance deviation sum product
    difference total integer integers digit digits sequence arithmetic geometric series logarithm log
    sine cosine tangent sin cos tan theorem proof prove lemma modulo gcd lcm roots root squared cubed
    sqrt vertex vertices coordinates origin axis interest profit loss discount principal speed velocity
    acceleration km mph meters metres cm feet inches litres liters gallons kg rs dollars cents hours
    minutes twice thrice half third equal equals bounded convergent converges days hr work men rate
    per ages older younger faster slower length width height weight cost price sold gain altogether
    remaining left irrational rational odd even positive negative number numbers maximum minimum least
    greatest boys girls coins dice marbles deck bijection
    injective surjective bijective countable pentagon heptagon octagon nonagon decagon diagonals
    eigenvectors odds numerator denominator compounded
    """
)
# These begin with what a search can skip to, as their words are frequent.
MATH_COUNT: Final = re.compile(r"how (?<=\bhow )(?:many|much|far|long|old|tall|fast|large)\b")
MATH_IN_HOW: Final = re.compile(r"in how(?<=\bin how)\b")
MATH_AT_WHAT: Final = (" at what ", " in what ", " by what ", " to what ", " for what ")
MATH_TASK: Final = re.compile(
    r"\bwhat (?:is|was|are|will be|would be|were) (?:the |his |her |their |its |"
    r"an? )?(?:\w+ ){0,3}?(?:value|values|sum|area|volume|probability|average|mean|median|product|"
    r"difference|ratio|percent(?:age)?|perimeter|number|distance|length|speed|rate|height|width|radius|"
    r"remainder|cost|price|profit|loss|total|least|greatest|smallest|largest|maximum|minimum|equation|"
    r"solution|slope|measure|fraction|degree|derivative|integral|limit|units digit|interest|age|sales|"
    r"income|weight|time taken|common)\b"
    r"|\b(?:find|calculate|compute|determine|evaluate|solve|simplify|factor|prove|expand|differentiate|"
    r"integrate|derive|express)\b"
    r"|\bshow that\b|\bwhat percent(?:age)?\b|\bwhat fractions?\b|"
    r"\bwhich (?:of the following )?(?:equations?|numbers?|expressions?|functions?|fractions?)\b|"
    r"\bput your final answer|\bexpress your answer"
    r"|\bsolve (?:this|the|for)\b|\bwhat is [-\d(x]|\bwhat (?:is|"
    r"was) (?:\w+ )?[a-z] ?[+*/=-]|\bis equal to\b|\bexplain mathematically\b"
)
# The same by a comparison. It begins with what a search can skip to.
MATH_MORE: Final = re.compile(r"how (?<=\bhow )(?:\w+ )?(?:more|less|fewer)\b")
# Tasks that only mathematics has, so that no number is needed.
MATH_SURE: Final = re.compile(
    r"\b(?:prov(?:e|ing) (?:that|the|there|using|by|it)\b|show that (?:the|every|any|there|if|a|it|\S*\$)|"
    r"square roots?\b|antiderivatives?\b|derivative of\b|integral of\b|integrate\b|differentiate\b|"
    r"how many (?:ways|different|distinct|zeros|digits|integers|subsets|permutations)|"
    r"probability (?:of|that)\b|find the limits?\b|"
    r"solve (?:for\b|the (?:following )?(?:equation|inequality|system|differential))|"
    r"system of equations|eigenvalue|determinant of\b|what is the (?:number|fraction)\?|"
    r"standard deviations?\b|odds of\b|counterexample|give a proofs?\b|explain mathematically\b|"
    r"by what fraction|round \S{1,20} to the nearest\b|closed form\b|put your final answer|"
    r"simplest (?:radical )?form|factor(?:ise|ize)? (?:the|completely)|"
    r"(?:geometric|arithmetic) (?:sequences?|series|progressions?)\b|"
    r"(?:simple|compound) interest\b|how (?:large|much|many) (?:was|is|were|are) (?:the|each|one)\b)|"
    r"\[asy\]|\\boxed"
)

# Texts that are to be condensed, reworded or searched.
TEXT_TASK: Final = re.compile(
    r"\b(?:summar(?:y|ies|i[sz]e[sd]?|i[sz]ing)\b|tl;?dr\b|paraphras|rewrit(?:e|ing)\b|rephras|reword|"
    r"proofread|correct (?:the|this|my|any|all)\b|polish\b|edit (?:the|this|my)\b|write nicer\b|fix (?:the |"
    r"my |up |any )*(?:grammar|spelling|blog|texts?|emails?|articles?|punctuation|typos)\b|key (?:points?|"
    r"takeaways|facts)\b|main (?:points?|ideas?|arguments?)\b|shorten\b|condense|distill?\b|"
    r"synthesi[sz]e|extract\b|based on (?:the|this|that)|according to the|(?:given|following|above|"
    r"below|this|these|supplied|provided|using the) (?:the )?(?:following |above |news )?(?:text|"
    r"passage|article|articles|paragraph|context|document|documents|email|mail|letter|story|essay|"
    r"report|conversation|dialog(?:ue)?|transcript|abstract|review|study|paper|sentences?|information|"
    r"background|plot|notes|excerpt)\b|turn (?:this|these|the (?:following|text|notes)) into\b|gist\b|"
    r"simpler (?:words|terms|language)|bullet points?\b.{0,40}\bfrom\b|make (?:this|it|"
    r"the following) (?:\w+ )?(?:shorter|clearer|more|concise|sound|formal|simpler|professional)|"
    r"improve (?:the|this|my) (?:text|writing|paragraph|email|wording|essay)|list (?:all |"
    r"every )?(?:the )?(?:names|people|dates|places)\b|mentioned\b|(?:from|in) the (?:texts?|"
    r"passages?|articles?|paragraphs?|notes|transcripts?)\b|one[- ]sentence\b|headline\b|minutes of\b)"
    r"|^(?:article|passage|context|paragraph|document|text|background|plot|news)s?\s?:",
    re.MULTILINE,
)

# What is to be invented.
CREATIVE: Final = re.compile(
    r"\b(?:write|tell|compose|create|make up|invent|craft|draft|continue)\b[^.\n]{0,60}\b(?:story|"
    r"stories|poem|sonnet|haiku|song|lyrics|scene|chapter|novel|limerick|joke|screenplay|dialogue|"
    r"monologue|fairy ?tale|rap|ballad|blog post|speech|script for a (?:play|video|film))\b"
    r"|\brole-?play|\bpretend (?:you|to be|that)|\bact as\b|\bimagine (?:you|that|a|being)|"
    r"\bauthor style|\b(?:[3-9]\d\d|\d[\d,]*\d{3}) words\b|\bcreative writing|\bfirst[- ]person\b"
)
TRANSLATION_TARGETS: Final = (
    "english|french|german|spanish|italian|portuguese|dutch|russian|chinese|japanese|korean|arabic|"
    "hindi|turkish|polish|swedish|czech|greek|finnish|danish|hebrew|hungarian|thai|vietnamese|"
    "indonesian|swahili|ukrainian|persian|norwegian|romanian"
)
TRANSLATION: Final = re.compile(
    r"\b(?:translat(?:e|es|ed|ing|ions?|or)\b|how (?:do|would|can|could) (?:you|i|we|a native speaker|"
    r"one|people) say\b|"
    rf"(?:mean|means|say|said|called|word for .{{1,40}}) in (?:{TRANSLATION_TARGETS})\b|"
    rf"say [\"'\u201c].{{1,200}}\bin (?:{TRANSLATION_TARGETS})\b|(?:give|need|want|show|write|"
    rf"put)\b[^.?!\n:]{{0,30}}\b(?:in|into|the) (?:{TRANSLATION_TARGETS})(?: version of|\s?:)|(?:in|"
    rf"into) (?:{TRANSLATION_TARGETS}),? please\.?$)|^\s?\w+ -> (?:{TRANSLATION_TARGETS})\s?:|"
    rf"^(?:{TRANSLATION_TARGETS}) please\s?:",
    re.MULTILINE,
)
