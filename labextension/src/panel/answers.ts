import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { DOLLAR, hasFormulas, link, readable, withDollars } from '../model/markdown.js';

const MIME = 'text/markdown';
const SOURCE = 'data-markdown';
/** Says to a live card that what stands in it is ours; `redraw.js` leaves it alone. */
const DRAWN = 'data-drawn';
const ANSWERS = `.kg-card [${SOURCE}]`;

/** What Markdown stands for, and no more; everything else is its text. */
const KEPT = new Set(
  'a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul'.split(
    ' '
  )
);
const ATTRIBUTES = new Set(['align', 'start']);
/** What colours code: a card's own classes are none of them. */
const OF_CODE = /^(cm-|language-|tok-|ͼ)/;

/** An answer that was drawn, and of which pieces: those at its beginning stay when it grows. */
interface IDrawn {
  source: string;
  readonly place: HTMLElement;
  pieces: string[];
  isAtWork: boolean;
}

/**
 * Draws the answers in a notebook's cards with JupyterLab's own renderer of Markdown, from the source that each carries.
 * What is drawn on the page alone changes, never the notebook. Nothing in an answer is fetched: an image would tell
 * whoever serves it what its address says.
 */
export class Answers {
  /** @param node - Where the cards are. */
  constructor(node: HTMLElement, rendermime: IRenderMimeRegistry) {
    this._rendermime = rendermime.clone({ sanitizer: new Reading(rendermime.sanitizer) });
    this._watch = new MutationObserver(records => {
      for (const { type, target, addedNodes } of records) {
        for (const changed of type === 'attributes' ? [target] : addedNodes) {
          this._look(changed);
        }
      }
    });
    this._watch.observe(node, { childList: true, subtree: true, attributeFilter: [SOURCE] });
    this._look(node);
  }

  dispose(): void {
    this._watch.disconnect();
  }

  private _look(node: Node): void {
    if (node instanceof HTMLElement) {
      const answers = node.matches(ANSWERS) ? [node] : node.querySelectorAll<HTMLElement>(ANSWERS);
      for (const answer of answers) {
        void this._draw(answer);
      }
    }
  }

  /** Draws an answer, and again for as long as its source has changed meanwhile. */
  private async _draw(answer: HTMLElement): Promise<void> {
    const drawn = this._drawn.get(answer) ?? {
      source: '',
      place: document.createElement('div'),
      pieces: [],
      isAtWork: false
    };
    this._drawn.set(answer, drawn);
    if (drawn.isAtWork) {
      return;
    }
    drawn.isAtWork = true;
    try {
      for (let now = sourceOf(answer); now !== drawn.source; now = sourceOf(answer)) {
        drawn.source = now;
        await this._place(answer, drawn);
      }
    } catch (why) {
      console.warn('An answer could not be drawn with the renderer of Markdown.', why);
    } finally {
      drawn.isAtWork = false;
    }
  }

  private async _place(answer: HTMLElement, drawn: IDrawn): Promise<void> {
    const renderer = this._rendermime.createRenderer(MIME);
    const data = { [MIME]: readable(drawn.source) };
    await renderer.renderModel(this._rendermime.createModel({ data, trusted: false }));
    renderer.node.querySelectorAll('.jp-InternalAnchorLink').forEach(one => one.remove());
    const fresh = [...renderer.node.childNodes];
    const pieces = fresh.map(one => (one instanceof Element ? one.outerHTML : (one.nodeValue ?? '')));
    const kept = drawn.pieces.findIndex((piece, at) => piece !== pieces[at]);
    const first = kept < 0 ? drawn.pieces.length : kept;
    const { place } = drawn;
    [...place.childNodes].slice(first).forEach(one => one.remove());
    place.append(...fresh.slice(first));
    drawn.pieces = pieces;
    if (place.parentNode !== answer) {
      place.className = renderer.node.className;
      answer.replaceChildren(place);
      answer.setAttribute(DRAWN, '');
    }
    renderer.dispose();
    for (const one of fresh.slice(first)) {
      if (one instanceof HTMLElement && hasFormulas(one.textContent ?? '')) {
        void this._rendermime.latexTypesetter?.typeset(one);
      }
    }
  }

  private readonly _rendermime: IRenderMimeRegistry;
  private readonly _watch: MutationObserver;
  private readonly _drawn = new WeakMap<HTMLElement, IDrawn>();
}

function sourceOf(answer: HTMLElement): string {
  return answer.getAttribute(SOURCE) ?? '';
}

/** Leaves of what JupyterLab's sanitiser lets through what can only be read. */
class Reading implements IRenderMime.ISanitizer {
  constructor(before: IRenderMime.ISanitizer) {
    this._before = before;
  }

  sanitize(dirty: string): string {
    // A document of its own, in which nothing is fetched.
    const { body } = new DOMParser().parseFromString(this._before.sanitize(dirty), 'text/html');
    for (const element of body.querySelectorAll('*')) {
      this._keep(element);
    }
    const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    const texts: Text[] = [];
    while (walker.nextNode()) {
      texts.push(walker.currentNode as Text);
    }
    texts.forEach(putDollars);
    return body.innerHTML;
  }

  private _keep(element: Element): void {
    const text = withDollars(element.textContent ?? '');
    const [href, alt] = [element.getAttribute('href'), element.getAttribute('alt')];
    if (element.localName === 'img') {
      element.replaceWith(`[image: ${alt?.trim() || 'without a name'}]`);
    } else if (element.localName === 'input') {
      element.replaceWith(element.hasAttribute('checked') ? '☑' : '☐');
    } else if (!KEPT.has(element.localName)) {
      element.replaceWith(...element.childNodes);
    }
    const classes = element.closest('code') ? [...element.classList].filter(name => OF_CODE.test(name)) : [];
    for (const name of element.getAttributeNames()) {
      if (!ATTRIBUTES.has(name)) {
        element.removeAttribute(name);
      }
    }
    if (classes.length > 0) {
      element.className = classes.join(' ');
    }
    if (element.localName === 'a') {
      this._lead(element, link(withDollars(href ?? ''), text));
    }
  }

  /** A link that says where it leads, whatever it is called. */
  private _lead(element: Element, leads: ReturnType<typeof link>): void {
    if (!leads) {
      element.replaceWith(...element.childNodes);
      return;
    }
    const { href, said } = leads;
    element.setAttribute('href', href);
    element.setAttribute('title', href);
    // JupyterLab adds that what is opened knows nothing of this page; the address of this page is not told either.
    element.setAttribute('target', '_blank');
    element.setAttribute('referrerpolicy', 'no-referrer');
    if (said) {
      const host = document.createElement('span');
      host.className = 'kg-leads';
      host.textContent = `(${said})`;
      element.after(' ', host);
    }
  }

  private readonly _before: IRenderMime.ISanitizer;
}

/** Puts dollar signs that begin no formula where they were, each by itself: nothing takes one for half a formula. */
function putDollars(text: Text): void {
  if (text.parentElement?.closest('code')) {
    text.data = withDollars(text.data);
    return;
  }
  for (let at = text.data.lastIndexOf(DOLLAR); at >= 0; at = text.data.lastIndexOf(DOLLAR)) {
    const apart = document.createElement('span');
    apart.textContent = '$';
    text.splitText(at).replaceData(0, 1, '');
    text.after(apart);
  }
}
