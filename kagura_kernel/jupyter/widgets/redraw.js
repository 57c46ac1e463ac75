// Brings what is shown to a new form with as few changes as there are. What stays the same stays the same element: it
// keeps its focus, its selection, its scroll position, what the reader unfolded and what they typed.

// Buttons and questions are never turned into others: a key that is on its way must not press what took its place.
const identity = (node) => {
  if (!(node instanceof Element)) return node.nodeName;
  const { act, id, ids, answer, path, approval, lease, keep } = node.dataset;
  const isProse = node.hasAttribute("data-markdown");
  return JSON.stringify([node.nodeName, act, id, ids, answer, path, approval, lease, keep, isProse]);
};

// What the card itself, or the reader, did to an element, and what no new form undoes.
const stays = (element, name) =>
  (name === "open" && element.matches("details")) ||
  name === "disabled" ||
  name === "aria-busy" ||
  name === "data-drawn" ||
  (name === "tabindex" && element === document.activeElement);

const redrawAttributes = (shown, fresh) => {
  const settling = shown.classList.contains("kg-settling");
  for (const name of shown.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !stays(shown, name)) shown.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (shown.getAttribute(name) !== value && !stays(shown, name)) shown.setAttribute(name, value);
  }
  if (settling) shown.classList.add("kg-settling");
};

const matching = (at, wanted) => {
  for (let other = at; other; other = other.nextSibling) if (identity(other) === wanted) return other;
  return null;
};

const redraw = (shown, fresh) => {
  let at = shown.firstChild;
  for (const next of [...fresh.childNodes]) {
    const same = matching(at, identity(next));
    if (!same) {
      shown.insertBefore(next, at);
      continue;
    }
    while (at !== same) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
    at = same.nextSibling;
    if (same instanceof Element) {
      redrawAttributes(same, next);
      // What JupyterLab has drawn from the Markdown it draws anew when that changes.
      if (!same.hasAttribute("data-drawn")) redraw(same, next);
    } else if (same.nodeValue !== next.nodeValue) {
      same.nodeValue = next.nodeValue;
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
};

// Said to those who listen instead of looking: each thing once, and nothing that only ticks or grows. It outlives the
// card, which is replaced by its static form in the moment in which there is most to say.
const announce = (text) => {
  let voice = document.getElementById("kagura-voice");
  if (!voice) {
    voice = document.createElement("div");
    voice.id = "kagura-voice";
    voice.setAttribute("role", "status");
    voice.setAttribute("aria-live", "polite");
    voice.style.cssText =
      "position:fixed;inset:0 auto auto 0;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap";
    document.body.append(voice);
  }
  voice.waiting = [...(voice.waiting ?? []), text];
  clearTimeout(voice.timer);
  voice.timer = setTimeout(() => {
    voice.textContent = voice.waiting.join(". ");
    voice.waiting = [];
  }, 100);
};
