"""The words and patterns by which a workload shows in a text, as closed sets and compiled expressions."""
# ruff: noqa: RUF001 - signs of mathematics look like letters

from __future__ import annotations

import re
from typing import Final

from gateway.core.phrase import phrase


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programming languages, formats and systems whose name alone speaks of code.
CODE_NAMES: Final = _words(
    """
    python javascript typescript java c++ c# golang rust ruby php perl kotlin scala haskell clojure
    erlang elixir fortran cobol matlab julia lua bash powershell zsh awk sed grep sql mysql postgres
    postgresql sqlite mongodb redis html css scss json yaml xml toml csv regex regexp dockerfile docker
    kubernetes kubectl terraform ansible numpy pandas pytorch tensorflow django flask fastapi react vue
    angular svelte nodejs node npm webpack jquery express spring hibernate linq dotnet xaml vba verilog
    vhdl assembly cuda opencl git github cron crontab nginx apache linux unix ubuntu shell stdin stdout
    api sdk cli orm ocaml racket scheme lisp prolog solidity graphql tokio asyncio goroutine swift
    pytest junit maven gradle cmake makefile ansi utf ascii oop crud mutex array arrays subarray
    substring substrings nums hashmap dataframe stacktrace traceback codebase localhost dropdown
    middleware boolean pointer pointers async regexes iterator kwargs struct
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
    """
)

# A request for something that is code, by its object: "write a small function", "fix this query".
CODE_REQUEST: Final = re.compile(
    r"\b(?:write|create|make|implement|give|show|build|generate|develop|design|code|need|want|provide|fix|"
    r"debug|"
    r"refactor|optimi[sz]e|complete|convert|translate|port|rewrite|explain|review|improve|simplify|add|"
    r"define|"
    r"construct|solve|document)\b[^.?!\n]{0,60}?"
    r"\b(?:functions?|programs?|scripts?|code|snippet|quer(?:y|ies)|regex|regexp|regular expression|"
    r"class(?:es)?(?= (?:in|that|called|named|for|to|which|with))|"
    r"one-?liner|api|endpoint|dockerfile|makefile|manifest|cron ?job|web ?page|webpage|html|css|sql|"
    r"algorithm|"
    r"unit tests?|data structure|web app|app|bot|parser|compiler|method|stored procedure|macro|formula in|"
    r"linked list|binary (?:search )?tree|hash ?map|json schema|cli|component|decorator|middleware|"
    r"terraform)\b"
)
# "in Python", "using C++", "with numpy": the language that the answer is to be written in.
CODE_IN: Final = re.compile(
    r"\b(?:in|using|with|to|into|of|on|for|from|your|an?|the|this|my)\s+(?:plain |pure |modern |some |"
    r"simple |only )?"
    r"(?:python\d?|javascript|typescript|c\+\+|c#|f#|golang|php|kotlin|haskell|clojure|erlang|elixir|"
    r"fortran|cobol|"
    r"matlab|bash|powershell|awk|sed|sql|mysql|postgres(?:ql)?|sqlite|html5?|css|regex|pandas|numpy|"
    r"pytorch|node\.?js|"
    r"django|jquery|verilog|vba|ocaml|solidity|cuda|graphql|google sheets|terraform|kubernetes|tensorflow|"
    r"linux|racket|"
    r"prolog|objective-c|typescript|unix|shell)(?![\w-])"
    r"|\b(?:in|using|with|into)\s+(?:java(?! or|,)|go(?=[.,:?!]|$)|rust|ruby|perl|scala|julia|lua|react|"
    r"vue|flask|"
    r"swift|assembly|excel|dart|elm|oracle|scheme)(?![\w-])"
    r"|\b(?:use|write|solve|implement|program|code)\b[^.?!\n]{0,40}\b(?:c|r|go|java|rust|ruby)(?= (?:to|"
    r"code|program|function|script)\b|[.,:?!]|$)"
)
# What only code, logs of programs and markup contain: beginnings of lines ...
CODE_LINE: Final = re.compile(
    r"\s*(?:def \w+\(|class \w+[:({]|import [\w.]+$|from [\w.]+ import|#include|func \w+\(|fn \w+\(|"
    r"public |private |"
    r"package \w|using [\w.]+;|(?:const|let|var) \w+ ?=|return\b.*;|diff --git|@@ -\d|>>> |\$ \w+|"
    r"traceback \(most|"
    r"if \(|for \(|while \(|}|elif |create table\b|insert into \w)"
)
# ... and signs within them. Each alternative begins with a literal, so that the search can skip.
CODE_SIGN: Final = re.compile(
    r"\.\w+\([^)\n]{0,60}\)|\(\)|=> ?[{(]|!==|===|[;{]\s*$|::\w|->\w|error:|exception\b|exit code\b|"
    r"undefined\b|"
    r"0x[0-9a-f]+|</?(?:div|html|body|span|script|table|head|p|a|ul|li|br|img|form|input|button|"
    r"style)\b[^>\n]{0,60}>",
    re.MULTILINE,
)
SQL: Final = re.compile(r"\bselect\b.{1,80}\bfrom\b.{1,60}(?:\bwhere\b|\bjoin\b|;)", re.DOTALL)
# How somebody asks about a command line or a program without naming a language.
CODE_TASK: Final = phrase(
    r"^(?:find|list|print|display|search|remove|delete|count|copy|rename|archive|compress|show|replace|"
    r"get|"
    r"recursively|append|create|kill|mount|set|sort|check|extract)\b[^\n]{0,120}(?:\bfiles?\b|"
    r"\bdirector(?:y|ies)\b|"
    r"\bfolders?\b|\bsubdirector\w+|\$\w+\b(?!\$)|\"\*|\*\.\w|(?<!\w)/\w+/\w*|\bsymlinks?\b|"
    r"\bprocess(?:es)?\b|"
    r"\bpermissions?\b|\bstdin\b)"
    r"|\bhow (?:do|can|to|would) (?:i |you |we )?(?:\w+ ){0,4}(?:list|string|array|dict|dictionary|"
    r"dataframe|column|"
    r"index|thread|variable|class|regex|module|file)s?\b"
    r"|\b(?:shell|terminal|bash|linux|this) command\b|\bone[- ]liner\b|\bpath/to/|\bcommand[- ]line\b|"
    r"\bflags? (?:do|for|of)\b|\bprogramming exercise\b|\bborrow checker\b|\bpull request\b|"
    r"\bstack ?trace\b|"
    r"\bunit tests?\b|\bevent loop\b|\brace condition\b|\bmemory leak\b|\bnull pointer\b|"
    r"\bmerge conflict\b|"
    r"\bleast recently used\b|\blinked list\b|\bbinary (?:search )?tree\b|\bhash (?:map|table)\b|"
    r"\bdepth-first\b|"
    r"\bbreadth-first\b|\bsorting algorithm\b|\breturn type\b|\bforeign key\b|\bprimary key\b|"
    r"\btime complexity\b|"
    r"\bconstant time\b|\bsource code\b|\bweb scraper\b|\brest api\b|\bsegmentation fault\b|"
    r"\bundefined is not\b",
    "find list print display search remove delete count copy rename archive compress show replace "
    "get recursively "
    "append create kill mount set sort check extract how shell terminal bash linux command liner "
    "path flags flag "
    "programming borrow pull stack unit event race memory null merge least linked binary hash depth breadth "
    "sorting return foreign primary time constant source web rest segmentation undefined",
)

LATEX: Final = re.compile(
    r"\\(?:[a-z]{2,}|[({\[|,;])|\$(?=[^$\n]*[\\^_={}])[^$\n]{1,200}\$|\$[^$\s]{1,12}\$|[√∑∫≤≥≠∞∠△×÷±∈∪∩𝑥𝑦]"
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
    """
)
MATH_COUNT: Final = re.compile(
    r"\bhow (?:many|much|far|long|old|tall|fast|large)\b|\b(?:at|in|by|to|for) what\b|\bin how\b"
)
MATH_TASK: Final = re.compile(
    r"\bwhat (?:is|was|are|will be|would be|were) (?:the |his |her |their |its |an? )?(?:\w+ ){0,3}?"
    r"(?:value|values|sum|area|volume|probability|average|mean|median|product|difference|ratio|"
    r"percent(?:age)?|perimeter|number|distance|length|"
    r"speed|rate|height|width|radius|remainder|cost|price|profit|loss|total|least|greatest|smallest|"
    r"largest|maximum|minimum|equation|solution|"
    r"slope|measure|fraction|degree|derivative|integral|limit|units digit|interest|age|sales|income|weight|"
    r"time taken|common)\b"
    r"|\b(?:find|calculate|compute|determine|evaluate|solve|simplify|factor|prove|expand|differentiate|"
    r"integrate|derive|express)\b"
    r"|\bshow that\b|\bwhat percent|\bwhat fraction|\bwhich (?:of the following )?(?:equation|number|"
    r"expression|function|fraction)|\bput your final answer|\bexpress your answer"
    r"|\bsolve (?:this|the|for)\b|\bwhat is [-\d(x]|\bhow (?:\w+ )?(?:more|less|fewer)\b|\bwhat (?:is|"
    r"was) (?:\w+ )?[a-z] ?[+*/=-]|\bis equal to\b|\bexplain mathematically"
)
# Tasks that only mathematics has, so that no number is needed.
MATH_SURE: Final = phrase(
    r"\bprov(?:e|ing) (?:that|the|using|by|it)\b|\bshow that (?:the|every|any|there|if|a|it|\S*\$)|"
    r"\bsquare root|"
    r"\bantiderivative|\bderivative of|\bintegral of|\bintegrate\b|\bdifferentiate\b|"
    r"\bhow many (?:ways|different|distinct|zeros|digits|integers|subsets|permutations)|"
    r"\bprobability (?:of|that)\b|"
    r"\bfind the limit|\bsolve (?:for|the (?:following )?(?:equation|inequality|system|differential))|"
    r"\bsystem of equations|\beigenvalue|\bdeterminant of|\bwhat is the (?:number|fraction)\?|"
    r"\bstandard deviation|"
    r"\bexplain mathematically|\bby what fraction|\[asy\]|\bround \S{1,20} to the nearest|"
    r"\bclosed form\b|"
    r"\bput your final answer|\\boxed|\bsimplest (?:radical )?form|\bfactor(?:ise|ize)? (?:the|"
    r"completely)|"
    r"\b(?:geometric|arithmetic) (?:sequence|series|progression)|\b(?:simple|compound) interest|"
    r"\bhow (?:large|much|many) (?:was|is|were|are) (?:the|each|one)\b",
    "prove proving show square antiderivative derivative integral integrate differentiate how "
    "probability find "
    "solve system eigenvalue determinant number fraction standard explain asy round closed final "
    "boxed simplest "
    "factor geometric arithmetic simple compound",
)

# Texts that are to be condensed, reworded or searched.
TEXT_TASK: Final = phrase(
    r"\bsummar(?:y|ies|i[sz]e[sd]?|i[sz]ing)\b|\btl;?dr\b|\bparaphras|\brewrit(?:e|ing)\b|\brephras|"
    r"\breword|"
    r"\bproofread|\bcorrect (?:the|this|my|any|all)\b|\bpolish\b|\bedit (?:the|this|my)|\bwrite nicer|"
    r"\bfix (?:the |my |up |any )*(?:grammar|spelling|blog|text|email|article|punctuation|typos)|"
    r"\bkey (?:points?|takeaways|facts)|\bmain (?:points?|idea|ideas|arguments?)|\bshorten\b|"
    r"\bcondense|\bdistill?\b|"
    r"\bsynthesi[sz]e|\bextract\b|\bbased on (?:the|this|that)|\baccording to the|"
    r"\b(?:given|following|above|below|this|these|supplied|provided|using the) (?:the )?(?:following |"
    r"above |news )?"
    r"(?:text|passage|article|articles|paragraph|context|document|documents|email|mail|letter|story|"
    r"essay|report|"
    r"conversation|dialog(?:ue)?|transcript|abstract|review|sentences?|information|background|plot|"
    r"notes|excerpt)\b|"
    r"^(?:article|passage|context|paragraph|document|text|background|plot|news)s?\s?:|"
    r"\bsimpler (?:words|terms|language)|\bbullet points?\b.{0,40}\bfrom\b|"
    r"\bmake (?:this|it|the following) (?:\w+ )?(?:shorter|clearer|more|concise|sound|formal|simpler|"
    r"professional)|"
    r"\bimprove (?:the|this|my) (?:text|writing|paragraph|email|wording|essay)|"
    r"\blist (?:all |every )?(?:the )?(?:names|people|dates|places)|\bmentioned\b|"
    r"\bfrom the (?:text|passage|article|paragraph|notes|transcript)|\bone[- ]sentence\b|\bheadline\b|"
    r"\bminutes of\b",
    "summary tldr tl paraphrase rewrite rewriting rephrase reword proofread correct polish edit "
    "nicer fix key main "
    "shorten condense distill distil synthesise extract based according given following above below "
    "this these "
    "supplied provided using article articles passage context paragraph document documents text "
    "background plot "
    "news simpler bullet make improve list mentioned from sentence headline minutes",
    re.MULTILINE,
)

# What is to be invented.
CREATIVE: Final = re.compile(
    r"\b(?:write|tell|compose|create|make up|invent|craft|draft|continue)\b[^.\n]{0,60}\b(?:story|stories|"
    r"poem|sonnet|haiku|song|lyrics|scene|chapter|novel|limerick|joke|screenplay|dialogue|monologue|"
    r"fairy ?tale|rap|ballad|blog post|speech|script for a (?:play|video|film))\b"
    r"|\brole-?play|\bpretend (?:you|to be|that)|\bact as\b|\bimagine (?:you|that|a|being)|\bauthor style|"
    r"\b\d[\d,]* words\b|\bcreative writing|\bfirst[- ]person\b"
)

_TARGETS: Final = (
    "english|french|german|spanish|italian|portuguese|dutch|russian|chinese|japanese|korean|arabic|"
    "hindi|turkish|polish|"
    "swedish|czech|greek|finnish|danish|hebrew|hungarian|thai|vietnamese|indonesian|swahili|"
    "ukrainian|persian|norwegian|"
    "romanian"
)
TRANSLATION: Final = phrase(
    r"\btranslat(?:e|es|ed|ing|ions?|or)\b|"
    r"\bhow (?:do|would|can|could) (?:you|i|we|a native speaker|one|people) say\b|"
    rf"\b(?:mean|means|say|said|called|word for .{{1,40}}) in (?:{_TARGETS})\b|"
    rf"\b(?:give|need|want|show|write|put)\b[^.?!\n:]{{0,30}}\b(?:in|into|"
    rf"the) (?:{_TARGETS})(?: version of|\s?:)|"
    rf"^\s?\w+ -> (?:{_TARGETS})\s?:|^(?:{_TARGETS}) please\s?:|\b(?:in|"
    rf"into) (?:{_TARGETS}),? please\.?$",
    f"translate say mean called word {_TARGETS.replace('|', ' ')}",
    re.MULTILINE,
)
