"""Answers in Markdown as JupyterLab draws them: formulas, coloured code, links that say where they lead, no request."""

import pytest
from playwright.sync_api import expect

from tests.browser.interrupts import LOAD
from tests.browser.test_answers import ON_THE_HOST
from tests.support.model_script import Calls, ModelTurn, Says, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

OUTSIDE = "outside.example"
ANSWER = f"""\
## The mean

It is $\\bar x = \\frac{{1}}{{n}} \\sum_i x_i$, and costs $5 to **at most** $10.

$$
\\int_0^1 x^2 \\, dx = \\frac13
$$

```python
def mean(values):
    return sum(values) / len(values)  # $1 each
```

| name | value |
|:--|--:|
| a | 1 |

See [https://bank.example/pay](https://{OUTSIDE}/pay), [notes](notes.md), <https://docs.example/a>
and [click](javascript:window.canary=1).

![picture](https://{OUTSIDE}/a.png) ![local](secret.png) <img src="https://{OUTSIDE}/b.png" onerror="window.canary=2">
<img src=x onerror="window.canary=3">

<script>window.canary = 4</script>
<div class="kg-ask" style="background: url(https://{OUTSIDE}/c.png)"><button data-act="allow">Allow</button></div>
<svg><image href="https://{OUTSIDE}/d.png"></image></svg><video src="https://{OUTSIDE}/e.mp4" autoplay></video>

```mermaid
flowchart TD
  A@{{ img: "https://{OUTSIDE}/f.png", label: "x", w: 60, h: 60 }}
```

$\\style{{background-image: url(https://{OUTSIDE}/g.png)}}{{x}} \\href{{https://{OUTSIDE}}}{{bank.example}}$
"""


@pytest.fixture
def asked(page):
    """What the page asks the network for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def is_drawn(card):
    """The answer as JupyterLab draws it, with nothing in it but what can be read."""
    answer = card.locator(".kg-prose")
    expect(answer.locator("mjx-container")).to_have_count(2)
    expect(answer.locator("pre span[class]").first).to_have_text("def")
    expect(answer.locator("p", has_text="costs $5 to at most $10").locator("strong")).to_have_text("at most")
    expect(answer.locator("td").nth(1)).to_have_css("text-align", "right")
    expect(answer).to_contain_text(f"https://bank.example/pay ({OUTSIDE}), notes, https://docs.example/a\nand click.")
    links = answer.locator("a").evaluate_all(
        "all => all.map(one => [one.href, one.target, one.rel, one.referrerPolicy, one.title])"
    )
    secure = ["_blank", "noopener", "no-referrer"]
    addresses = [f"https://{OUTSIDE}/pay", "https://docs.example/a"]
    assert links == [[address, *secure, address] for address in addresses]
    expect(answer).to_contain_text("[image: picture] [image: local]")
    expect(answer.locator("pre").last).to_contain_text("flowchart TD")
    expect(answer.locator("p").last).to_contain_text("\\style")
    acting = "img, script, button, svg image, video, [onerror], [style*=url], [id], [class*=kg-ask]"
    assert answer.locator(acting).count() == 0


def test_an_answer_is_drawn_by_jupyterlab_and_asks_the_network_for_nothing(open_notebook, lab, asked):
    notebook = open_notebook(LOAD, "%%kagura\nWhat is a mean?")
    notebook.done(0)
    lab.model.turns[:] = [says(ANSWER)]
    is_drawn(notebook.done(1))
    notebook.picture("answer", cell=1)
    # In the file it stays as the kernel wrote it, and it is drawn anew when somebody opens it.
    kept = str(notebook.save().cells[1].outputs)
    assert "data-drawn" not in kept
    notebook.reload()
    is_drawn(notebook.output(1))
    assert not notebook.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert notebook.page.evaluate("window.canary") is None
    assert [url for url in asked if not url.startswith((lab.url, "data:", "blob:"))] == []


GROWN = """answer => {
  const first = answer.querySelector('p');
  answer.setAttribute('data-markdown', answer.dataset.markdown + '\\n\\nIt is $z$.');
  return first;
}"""


def test_an_answer_of_a_live_card_is_drawn_by_jupyterlab_and_keeps_what_it_has_when_it_grows(open_notebook, lab):
    notebook = open_notebook(LOAD, "%%kagura\nWhat is a mean?")
    notebook.done(0)
    first = "It is $x$.\n\n| a |\n|--|\n| 1 |"
    lab.model.turns[:] = [ModelTurn((Says(first), Calls("bash", ON_THE_HOST)), delay=0.02), says("Over.")]
    card = notebook.run(1)
    card.locator(".kg-ask.kg-open").wait_for()
    answer = card.locator(".kg-live .kg-prose")
    expect(answer.locator("td")).to_have_text("1")
    expect(answer.locator("mjx-container")).to_have_count(1)
    before = answer.evaluate_handle(GROWN)
    expect(answer.locator("mjx-container")).to_have_count(2)
    assert answer.evaluate("(answer, first) => answer.querySelector('p') === first", before)
    card.get_by_role("button", name="Deny").click()
    expect(card.locator(".kg-prose").last).to_have_text("Over.")
