"""Words that nearly every sentence has, so that they say nothing of what it is about. All are folded."""

from __future__ import annotations

from collections.abc import Iterable

_ENGLISH_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but
by can could d did do does doing don done down during each else ever few for from further get gets getting got
had has have having he hence her here hers herself him himself his how i if in into is isn it its itself just
let ll m me more most much must my myself no nor not now of off on once only or other our ours ourselves out
over own re s same shall she should so some such t than that the their theirs them themselves then there these
they this those through to too under until up upon us ve very was wasn we were what when where whether which
while who whom whose why will with would yes you your yours yourself yourselves
"""
ENGLISH = frozenset(_ENGLISH_WORDS.split())

_GERMAN_WORDS = """
aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da dabei dadurch dafur
damit danach dann daran darauf darin das dass dein deine deinem deinen deiner dem den denn der deren des
dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
er es etwa etwas euch euer eure fur gegen gibt hab habe haben hat hatte hatten hattest hier hin ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jener kann kein keine keinem
keinen keiner konnen konnte machen man manche mein meine meinem meinen meiner mich mir mit muss musste nach
nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit selbst sich sie sind so
sollte sondern sonst uber um und uns unser unsere unter vom von vor wann war waren warum was weil welche
welchem welchen welcher welches wem wen wenn wer werde werden wie wieder wieso will wir wird wo wofur woran
wollte worden wurde wurden zu zum zur zwar zwischen
"""
GERMAN = frozenset(_GERMAN_WORDS.split())

_ONLY_ENGLISH = ENGLISH - GERMAN
_ONLY_GERMAN = GERMAN - ENGLISH


def is_german(words: Iterable[str]) -> bool:
    """Whether folded words speak for German rather than for English; where nothing speaks, they do not."""
    balance = 0
    for word in words:
        if word in _ONLY_GERMAN:
            balance += 1
        elif word in _ONLY_ENGLISH:
            balance -= 1
    return balance > 0
