"""The same signs of a workload in languages other than English, by what they show.

Words stand between spaces; ``*`` ends the beginning of a word, ``_`` is a space between words, ``xx:``
says in which language those after it are.
"""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

from typing import Final

WORDS: Final = {
    # Notions that only programming has.
    "code_sure": """
    any: git commit* rebase merge branch div const println print printf null undefined nullpointer* int
    any: float char bool boolean array arrays string strings stack queue heap thread* mutex deadlock* bug
    any: bugs debug* refactor* loop loops script scripts query queries parser hashmap async await callback
    any: lambda regex react angular spring node nodejs flutter swift rust ruby perl vba frontend backend
    any: endpoint* nginx ssh curl quicksort mergesort bubblesort palindrom* palíndrom* palindróm* compiler
    any: exception framework* plugin* widget* login server* container* cache index web_scrap* bot
    any: telegram-bot commit* render* react docker* cronjob* usestate useeffect flexbox webhook* localhost
    any: fetch deploy* debounce dockerfile kubernetes
    de: algorithm* rekursi* schleife* sortier* quellcode* quelltext* programmier* kompilier* datenbank*
    de: zeichenkette* zeichenfolge* datenstruktur* regulär* verkettete* binärbaum* binäre* kommandozeile*
    de: befehlszeile* dekorator* speicherleck* parsen parst skript* debugg* codezeile* unittest*
    de: endlosschleife*
    fr: algorithm* récursi* boucle* trier trie tri_ compil* base_de_données bases_de_données requête*
    fr: expression_régulière expressions_régulières expression_rationnelle chaîne_de_caractères
    fr: chaînes_de_caractères liste_chaînée arbre_binaire pointeur* débogu* déboguer script* programmation
    fr: ligne_de_commande décorateur* code_source
    es: algoritm* recursi* bucle* ordenamiento compil* base_de_datos bases_de_datos expresión_regular
    es: expresiones_regulares cadena_de cadenas_de lista_enlazada árbol_binario puntero* depur* script*
    es: programación línea_de_comandos decorador* código_fuente iterar matriz_de arreglo*
    pt: laço loop recursiv* ordenação banco_de_dados expressão_regular expressões_regulares cadeia_de
    pt: lista_encadeada lista_ligada árvore_binária ponteiro* depurar programação linha_de_comando
    pt: código-fonte vetor*
    it: ricorsiv* ciclo_for ciclo_while compila* espressione_regolare espressioni_regolari stringa stringhe
    it: lista_concatenata albero_binario puntator* programmazione riga_di_comando codice_sorgente eseguibile
    it: debuggare
    nl: algoritme* recursie* lus lussen sorteer* broncode* programmeer* databank* reguliere_expressie*
    nl: tekenreeks* gelinkte_lijst opdrachtregel* compile* aanwijzer*
    sv: rekursiv* slinga sorter* källkod* programmer* reguljär* sträng strängar länkad_lista kommandorad*
    sv: databas* kompiler* felsök* skript*
    da: løkke* streng strenge regulært* kildekode* kommandolinje* lenket hægtet_liste regulære løkken
    fi: algoritmi* rekursii* silmuk* lajittel* lähdekood* ohjelmoi* tietokan* säännölli* merkkijono*
    fi: komentorivi* kääntäjä* skripti* linkitetty
    pl: algorytm* rekuren* rekurs* pętl* sortuj* sortow* kod_źródłowy programowani* baza_danych bazą_danych
    pl: bazie_danych bazy_danych wyrażenie_regularne wyrażenia_regularnego łańcuch* skrypt* kompilu*
    pl: wskaźnik* listę_jednokierunkową drzewo_binarne drzewa_binarnego zapytani* debug* tablic* dekorator*
    cs: algoritm* rekurz* cykl* smyčk* třídění seřaď* seřad* zdrojový_kód programován* databáz* regulární*
    cs: řetězec řetězce řetězců spojový_seznam binární* příkazov* zkompil* skript* ukazatel* dotaz
    ro: algoritm* recursiv* bucl* sorteaz* sortare cod_sursă programare baza_de_date bază_de_date
    ro: expresie_regulată șir_de șiruri listă_înlănțuită arbore_binar interogare* script*
    hu: algoritmus* rekurzív* rekurzió* ciklus* rendez* forráskód* programoz* adatbázis* reguláris*
    hu: karakterlánc* sztring* láncolt_lista bináris* parancssor* szkript* lekérdezés* mutató* fordító*
    tr: algoritma* özyineleme* özyinelemeli döngü* sırala* kaynak_kod* programlama* veritaban* veri_taban*
    tr: düzenli_ifade* dize* dizgi* bağlı_liste ikili_arama ikili_ağa* komut_satır* derle* betik* sorgu*
    tr: değişken* dizi dizide dizinin diziyi
    id: algoritma* rekursif* perulangan* mengurutkan urutkan pengurutan kode_sumber pemrograman basis_data
    id: database regex senarai larik baris_perintah kompilasi skrip*
    vi: thuật_toán đệ_quy vòng_lặp sắp_xếp mã_nguồn lập_trình cơ_sở_dữ_liệu biểu_thức_chính_quy chuỗi_ký_tự
    vi: danh_sách_liên_kết cây_nhị_phân dòng_lệnh biên_dịch truy_vấn con_trỏ mảng tập_lệnh đoạn_mã
    ca: algorism* recursi* bucle* expressió_regular base_de_dades cadena_de
    sw: algorithimu msimbo programu
    ru: регулярк* коммит* рендер* репозитор* деплой* фреймворк* докер*
    ru: алгоритм* рекурс* цикл* сортиров* отсортир* исходный_код исходного_кода программир* база_данных
    ru: базы_данных базе_данных регулярн* скрипт* компил* указател* связный_список связного_списка бинарн*
    ru: двоичн* массив* отлад* командной_строк* декоратор* итерац* питон* многопоточ* утечка_памяти
    ru: утечку_памяти рефактор*
    uk: рекурс* сортуван* відсортуй* програмуван* база_даних базу_даних бази_даних регулярн* компіл*
    uk: вказівник* масив* двійков* бінарн* командн* рядок_коду запит
    bg: алгоритъм* рекурсив* цикъл* сортир* програмиран* база_данни регулярен низ
    el: αλγόριθμ* αλγορίθμ* αναδρομ* βρόχ* ταξινόμη* ταξινομ* πηγαί* προγραμματισ* βάση_δεδομένων
    el: βάσης_δεδομένων κανονικ* συμβολοσειρ* δυαδικ* γραμμή_εντολών μεταγλώττι* κώδικα κώδικας δείκτ*
    """,
    # What a program and its parts are called, which other things are called too.
    "code": """
    de: funktion* programm* code* klasse* fehler* befehl* liste datei* tabelle* ordner* abfrage* methode*
    de: zeiger* array* server* rückgabewert* index* zeile* ausgabe* eingabe* webseite* schaltfläche*
    de: variable* spalte* knoten stapel
    fr: fonction* programme programmes code classe classes erreur* commande* liste fichier* tableau*
    fr: dossier* méthode* dictionnaire* pile file tableaux ligne* variable* colonne* entier* nœud* site
    fr: bouton*
    es: función funciones programa programas código clase clases error errores comando* lista fichero*
    es: archivo* ciclo diccionario* vector* fila tabla* carpeta* consulta* método* variable* columna* nodo*
    es: botón página*
    pt: função funções dicionário* array* vetor ciclo linha* programa programas código códigos codigo classe
    pt: erro comando* arquivo* ficheiro* tabela* pasta* método* variáve* coluna*
    it: funzione funzioni programma programmi codice classe classi errore comando comandi elenco file
    it: tabella cartella dizionario vettore ciclo array riga metodo variabil* colonna nodo pulsante pagina
    it: query
    nl: functie* rij rijen woordenboek array* programma* klasse* fout* opdracht* lijst bestand* tabel map
    nl: methode* variabele* kolom*
    sv: funktion* program kod koden koder klass* fel felet kommando* lista fil filer filen tabell* mapp
    sv: variabel* metod* kolumn*
    da: fejl funktion* programm* liste kode koden kommando* filer mappe tabel tabellen klassen variabel*
    da: filen
    no: funksjon* feil feilen kode koden klassen tabell* variabel* liste metode*
    fi: funkti* ohjelm* koodi* luok* virhe* komen* lista* tiedosto* taulu* kansio* muuttuj* metod*
    pl: funkcj* program programu kod kodu klas* błąd błędu błęd* polecen* list* plik* tabel* folder* zmienn*
    pl: metod* słownik* wiersz* kolumn* komend*
    cs: funkc* program programu kód kódu tříd* chyb* příkaz* seznam* soubor* tabulk* složk* proměnn* metod*
    cs: sloupec pole polí řádek řád*
    ro: funcți* program programul cod codul clas* eroare* eroarea comandă comanda listă fișier* tabel*
    ro: variabil*
    hu: függvény* program* kód kódot kódja osztály* hiba hibát parancs* lista listát fájl* táblá* tábla
    hu: változó*
    tr: fonksiyon* program programı kod kodu* koda kodd* kodla* sınıf* hata hatası hatayı komut* liste
    tr: listeyi dosya* tablo* döngü* sözlük metin* index klasör* metot* sütun* yöntem*
    id: fungsi* larik array kamus program kode kelas galat kesalahan perintah daftar berkas tabel variabel
    id: metode kolom file
    vi: hàm chương_trình mã lớp lỗi lệnh danh_sách tệp bảng thư_mục biến
    sw: kazi_ya msimbo jedwali faili orodha
    ca: funció programa codi classe error llista fitxer taula
    ru: функци* программ* код кода коде коду кодом класс* ошибк* команд* список списк* файл* таблиц* папк*
    ru: запрос* словар* дубликат* сервер* бот бота стек* очеред* объект* перемен* метод* столб* строк* узел
    ru: кнопк*
    uk: функці* програм* код коду помилк* список списк* таблиц* змінн* рядк* рядок* клас класу файл*
    bg: функция програма код клас грешка команда списък файл таблица
    el: συνάρτη* συναρτή* πρόγραμμα* κλάση* σφάλμα* εντολ* λίστα* αρχεί* πίνακα* μεταβλητ* φάκελ*
    """,
    # Words that ask for it to be made, changed or explained.
    "code_made": """
    haz hazme haga fais faites fai fammi faz faça mach mache maak zrób vyrob udělej készíts yap buat làm
    сделай зроби κάνε φτιάξε lav lag gör tee fă trie ordena ordina sorteer schreib* erstell* erklär* zeig*
    korrigier* implementier* warum écri* crée* corrige* expli* montre* implément* pourquoi escrib* escrev*
    crea* cria* implement* scriv* corregg* spieg* come cómo como comment perché wie hoe jak jako how napisz
    schrijf yaz* напиш* исправ* объясн* перепиш* реализ* почему viết giải_thích sửa ayud* quiero necesito
    brauche möchte j'ai_besoin preciso нуж* puedo posso puis-je kann_ich можно kodunu skriv skrive hur
    hvordan kirjoita miten kuinka napiš scrie cum írj hogyan nasıl tulis buatkan bagaimana jelaskan
    làm_thế_nào tạo створи* поясн* чому γράψε γράψτε πώς εξήγησε andika escriu wyjaśnij popraw dlaczego
    vysvětli proč oprav magyarázd javítsd miért leg_uit waarom förklara varför forklar selitä miksi açıkla
    düzelt neden
    """,
    # Questions after a number, and orders to calculate or to prove.
    "math_task": """
    cuanto cuantos cuanta cuantas cuánto cuántos cuánta cuántas combien wie_viel* wieviel wieviele wie_groß
    wie_lang wie_hoch wie_weit wie_alt wie_schnell wie_teuer quanto quantos quanti quanta quantas quante
    hoeveel ile kaç* сколько какое_количество bao_nhiêu ngapi wangapi mangapi vingapi mingapi zingapi hány
    mennyi kolik câte câți cât berapa monta hur_många hur_mycket hvor_mange hvor_meget hvor_mye kuinka_monta
    kuinka_paljon скільки колко πόσο πόσα πόσες πόσους quants quantes
    de: berechn* löse lösen bestimme beweis* zeige_dass zeige,_dass ermittle vereinfach* leite_ab ableiten
    de: integrier* differenzier* faktorisier*
    fr: calcul* résou* résolv* démontr* prouve* détermin* simplifi* dérive* intègr* intégr* factoris*
    fr: quelle_distance quelle_est_la_valeur quelle_est_la_probabilité
    es: calcul* resuelv* resolv* demuestr* demostrar simplific* deriva integr* factoriza* halla hallar
    pt: resolv* demonstr* prove determine simplifique derive integre fatore
    it: calcola* risolv* dimostr* determina semplific* trova_il_valore fattorizza
    nl: bereken* los_op loes bewijs* vereenvoudig* bepaal
    sv: beräkna* lös bevisa* förenkla* bestäm derivera integrera
    da: beregn* løs bevis* forenkl* udregn*
    no: regn_ut finn_verdien
    fi: laske* ratkaise* todista* sievennä määritä derivoi integroi
    pl: oblicz* rozwiąż udowodnij wykaż wyznacz uprość policz znajdź_wartość
    cs: vypočít* vypočti spočít* vyřeš* řešte dokaž* zjednoduš* urči
    ro: calculeaz* rezolv* demonstreaz* determin* simplific*
    hu: számítsd számold számíts oldd_meg bizonyítsd határozd egyszerűsítsd
    tr: hesapla* çöz çözün çözünüz kanıtla* ispatla* sadeleştir bulunuz türevini integralini
    id: hitung* selesaikan buktikan tentukan sederhanakan
    vi: tính giải_phương_trình chứng_minh rút_gọn tìm_giá_trị giải_hệ
    sw: kokotoa hesabu tafuta_thamani
    ca: calcula resol demostra
    ru: вычисл* реши* решит* найди* найдите докаж* посчита* рассчита* упрост* определите умнож* подсчита*
    uk: обчисл* розв* знайди* доведи* доведіть спрост* порахуй*
    bg: пресметн* реши намери_стойността докажи
    el: υπολόγισ* υπολογίσ* λύσε λύστε απόδειξ* αποδείξ* βρες_την_τιμή απλοποί*
    """,
    # Terms of mathematics.
    "math_term": """
    de: dreieck* rechteck* umfang* gleichung* summe produkt teilbar* ganze_zahl* ganzer_zahl* ganzen_zahl*
    de: prozent* ableitung* integral* wahrscheinlichkeit* fläche* volumen* primzahl* primfaktor* bruch
    de: brüche quadrat* wurzel* winkel* kreis* radius durchmesser* durchschnitt* mittelwert* zinsen zinssatz
    de: matrix determinant* vektor* grenzwert* logarithm* polynom* ungleichung* stammfunktion* kilometer
    de: geschwindigkeit* würfel* doppelt halb* multipli* dividier* addier* differenz fakultät
    fr: triangle* équation* aire dérivée* divisible* pourcentage* somme produit intégrale* probabilit*
    fr: volume* nombre_premier nombres_premiers fraction* carré* racine* angle* cercle* rayon diamètre
    fr: moyenne* intérêt* matrice* déterminant* vecteur* limite logarithm* polynôm* inégalité* primitive*
    fr: vitesse* rectangle* périmètre* entiers multipli* divis* théorème* factorielle
    es: triángulo* ecuación* ecuaciones área* divisible* porcentaje* suma derivada* producto integral*
    es: probabilidad* volumen número_primo números_primos fracción* fracciones cuadrado* raíz raíces ángulo*
    es: círculo* radio diámetro promedio* interés matriz matrices determinante vector* límite logaritm*
    es: polinomi* desigualdad* velocidad* rectángulo* perímetro* entero* multiplic* divid* teorema*
    es: factorial
    pt: equação* equações triângulo* porcentagem* percentual soma produto probabilidade* número_primo
    pt: números_primos fração* quadrado* raiz raízes ângulo* círculo* raio média juros matriz polinômi*
    pt: desigualdade* velocidade* retângulo* perímetro* inteiro* multiplic* divid*
    it: triangolo* equazion* derivata* percentual* somma prodotto probabilit* numero_primo numeri_primi
    it: frazion* quadrat* radice radici angol* cerchio* raggio diametro media interess* matrice determinante
    it: vettor* limite polinomi* velocità rettangol* perimetro* interi moltiplic* teorema
    nl: driehoek* vergelijking* oppervlakte* kans waarschijnlijkheid* priemgetal* breuk* vierkant* wortel*
    nl: hoek* cirkel* straal gemiddelde* rente procent* afgeleide* integraal* snelheid* rechthoek* omtrek*
    nl: getal* som inhoud deelbaar stelling
    sv: triang* ekvation* derivata* sannolikhet* primtal* bråk kvadrat* kvadratrot* vinkel* cirkel*
    sv: medelvärd* ränta* procent* integral* hastighet* rektang* omkrets* summa* heltal* delbar* volym*
    da: trekant* ligning* sandsynlighed* primtal* brøk* vinkel* gennemsnit* afledte* hastighed* areal* sum
    no: likning* sannsynlighet* primtall* gjennomsnitt* deriverte* hastighet* areal*
    fi: kolmio* yhtälö* derivaat* todennäköisyy* alkuluv* alkuluku* murtoluk* neliö* ympyr* keskiarv* korko*
    fi: prosent* integraal* nopeu* suorakulmi* pinta-ala* summa* kokonaisluk* jaollinen tilavuu*
    pl: trójkąt* równani* pochodn* prawdopodobie* liczba_pierwsza liczby_pierwsze liczb* ułam* kwadrat*
    pl: pierwiast* kąt* okrąg* okręg* promie* średni* procent* całk* prędkoś* prostokąt* obwód*
    pl: pole_powierzchni sum* iloczyn* podzieln* objętoś* macierz* wektor* granic* logarytm* wielomian*
    pl: nierównoś*
    cs: trojúhelník* rovnic* deriva* pravděpodobnost* prvočís* zlom* čtver* odmocn* úhel* kružnic* poloměr*
    cs: průměr* úrok* procent* integrál* rychlost* obdélník* obvod* obsah* součet* součin* dělitel* objem*
    cs: čísl* matic* limit*
    ro: triungh* ecuați* derivat* probabilit* număr_prim numere_prime fracți* pătrat* rădăcin* unghi* cerc*
    ro: raz* medie* dobând* procent* integral* vitez* dreptunghi* perimetr* suma aria divizib* volum*
    hu: háromszög* egyenlet* derivált* valószínűség* prímszám* tört* négyzet* gyök* szög* kör* sugár* átlag*
    hu: kamat* százalék* integrál* sebesség* téglalap* kerület* terület* összeg* szorzat* osztható*
    hu: térfogat*
    tr: denklem* üçgen* türev* yüzde* toplam* sayı* katın* katin* olasılı* asal* kesir* kare* karekök* açı*
    tr: çember* daire* yarıçap* ortalama* faiz* integral* hız* dikdörtgen* çevre* alan* çarpım* böl* hacim*
    tr: matris* vektör* limit* eşitsizlik* fark*
    id: segitiga* persamaan* turunan* peluang probabilitas bilangan* pecahan* persegi* akar sudut*
    id: lingkaran* jari-jari rata-rata bunga persen* integral* kecepatan* keliling luas jumlah* hasil_kali
    id: volume kuadrat matriks
    vi: tam_giác phương_trình đạo_hàm xác_suất số_nguyên phân_số hình_vuông căn_bậc góc đường_tròn bán_kính
    vi: trung_bình lãi_suất phần_trăm tích_phân vận_tốc hình_chữ_nhật chu_vi diện_tích tổng tích thể_tích
    vi: chia_hết bất_phương_trình ma_trận hàm_số giới_hạn
    sw: pembetatu mlinganyo asilimia jumla eneo mzunguko wastani kasi nusu mraba
    ca: triangle equació àrea derivada probabilitat percentatge suma arrel
    ru: треугольник* уравнени* площад* равнобедрен* процент* сумм* произведени* производн* вероятност*
    ru: интеграл* простое_число простые_числа простых_чисел дроб* квадрат* корень корн* угол угл* окружност*
    ru: радиус* диаметр* средн* матриц* определител* вектор* предел* логарифм* многочлен* неравенств*
    ru: скорост* прямоугольник* периметр* объём* объем* числ* делит* теорем* множител* километр*
    uk: трикутник* рівнян* площ* відсотк* сум* добут* похідн* ймовірн* імовірн* інтеграл* просте_число
    uk: прості_числа дріб* дроб* квадрат* корін* кут* радіус* середн* матриц* нерівн* швидк* прямокутник*
    uk: периметр* чис*
    bg: триъгълник* уравнени* площ* процент* сбор* вероятност* производна* число числа
    el: τρίγων* τριγών* εξίσωση* εξίσωσ* εξισώσ* παράγωγο* πιθανότητ* πρώτοι_αριθμοί πρώτος_αριθμός κλάσμα*
    el: κλασμ* τετράγων* ρίζα* γωνία* γωνίες κύκλο* ακτίνα* μέσο_όρο μέσος_όρος τόκο* ποσοστό* τοις_εκατό
    el: ολοκλήρωμα* ταχύτητα* ορθογώνι* περίμετρο* εμβαδό* άθροισμα* γινόμενο* όγκο* αριθμ*
    """,
    # What is to be invented or composed.
    "creative": """
    de: gedicht* geschichte* kurzgeschichte* märchen* rede brief e-mail aufsatz lied witz*
    fr: poème* histoire* conte lettre discours chanson* blague* récit e-mail
    es: poema* historia* cuento* carta discurso canción chiste* correo ensayo relato*
    pt: conto história* redação piada* música letra discurso
    it: poesia racconto storia lettera discorso canzone barzelletta saggio favola
    nl: gedicht* verhaal* brief liedje toespraak mop
    sv: dikt* berättelse* saga brev tal sång skämt historie* digt* eventyr* tale novelle* fortelling*
    fi: runo* tarina* kirje* puhe* satu*
    pl: wiersz* opowiad* bajk* list przemów* piosenk* żart*
    cs: báseň básn* příběh* pohádk* dopis* povídk* vtip
    ro: poezi* poveste* scrisoare* discurs*
    hu: vers* történet* mese mesét levelet beszédet
    tr: şiir* hikâye* hikaye* masal* mektup* öykü* fıkra*
    id: puisi* cerita* dongeng* surat pidato* lagu
    vi: bài_thơ câu_chuyện truyện bức_thư bài_văn bài_hát
    ru: стих* рассказ* сказк* письмо истори* сочинени* эссе песн* шутк* анекдот*
    uk: вірш* оповідан* казк* лист історі*
    el: ποίημα* ιστορία* παραμύθι* γράμμα*
    """,
    # Requests for a translation.
    "translation": """
    übersetz* traduis* traduire* traduisez* traduction* traduce* traduci* traduz* traducción* traduzione*
    tradução* traducere* traduc* перевед* перевод dịch çevir* przetłumacz* vertaal* översätt* oversæt*
    oversett* käännä* přelož* fordítsd* terjemahkan* переклад* перекла* преведи μετάφρασ* tradueix* tafsiri*
    """,
    # Orders of a deed, and questions after something that only a tool can know.
    "tool_action": """
    schick* buch* stell* bestell* such* envoie* réserve* cherche* envía* reserva* busca* invia* prenota*
    cerca envia* отправ* закаж* найди* поставь* включи* wyślij znajdź gönder* bul* hava_durumu procur*
    необходимо* погода* прогноз* wetter* météo* weather*
    """,
}
"""Words of languages with letters of ours, Cyrillic or Greek ones."""
