// A live card. It holds no knowledge of runs: the kernel sends parts as HTML under keys, the card puts them in place,
// keeps what the reader unfolded, lets the clocks tick, and tells the kernel which button was pressed.

const TICK_MS = 250;
const GIVE_UP_MS = 10000;
const ANSWER_MS = 3000;
const CLEARED_MS = 1000;
const NO_ANSWER = "The kernel does not answer.";
const GONE = "The kernel is gone; this card is as it was.";
const GONE_STATUS = new Set(["restarting", "autorestarting", "terminating", "dead"]);
// A question that appears or goes moves what lies below, and so does what an agent says: a click that was under way must
// not press another button, and whoever prints must not choose which. The keyboard aims at a button, not at a place.
const SETTLE_MS = 400;
const GRAVE = '[data-act="allow"], [data-act="allow-all"], [data-act="apply"], [data-act="revoke"]';
// Nobody allows what they have not had on screen to its end.
const WAITS = '[data-act="allow"]';
const NOT_READ = "Read it to its end first: it can be allowed once the end has been on screen.";

const two = (number) => String(number).padStart(2, "0");
const face = (seconds) => {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}:${two(whole % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
};

const fragment = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
};

// Clocks count from the moment their part arrived, so that the clocks of kernel and browser need not agree.
const tick = (root, arrived) => {
  const now = performance.now();
  for (const clock of root.querySelectorAll("[data-elapsed], [data-expires], [data-left]")) {
    const since = (now - (arrived.get(clock.closest("[data-slot]")?.dataset.slot) ?? now)) / 1000;
    const { elapsed, expires, left, total } = clock.dataset;
    if (elapsed !== undefined) {
      say(clock, face(Number(elapsed) + since));
      continue;
    }
    const rest = Math.max(0, Number(expires ?? left) - since);
    say(clock.querySelector(".kg-face") ?? clock, face(Math.ceil(rest)));
    if (expires !== undefined) clock.classList.toggle("kg-warn", rest < 60);
    const bar = clock.querySelector(".kg-bar i");
    if (bar) bar.style.width = `${(100 * rest) / Number(total)}%`;
  }
};

const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Which of the buttons with the same act it is.
const mark = (element) => {
  const { act, id, answer, path } = element.dataset;
  return act ? JSON.stringify([act, id, answer, path]) : null;
};

// What decides something, and where on the page it stands.
const places = (root) =>
  [...root.querySelectorAll(GRAVE)]
    .map((button) => `${mark(button)} ${button.dataset.ids} ${Math.round(button.getBoundingClientRect().top)}`)
    .join();

const settling = new WeakMap();
const settle = (root) => {
  for (const button of root.querySelectorAll(GRAVE)) {
    button.classList.add("kg-settling");
    clearTimeout(settling.get(button));
    settling.set(button, setTimeout(() => button.classList.remove("kg-settling"), SETTLE_MS));
  }
};

// What is to be said of the card as a whole stands above it; an empty text takes it away.
const remark = (root, text) => {
  const said = root.querySelector(":scope > .kg-remark");
  if (said && !text) return said.remove();
  if (!text) return;
  const line = said ?? document.createElement("div");
  line.className = "kg-remark";
  line.setAttribute("role", "status");
  line.textContent = text;
  if (!said) root.prepend(line);
};

// Where the texts of a question end that nobody has had on screen yet.
const unread = (button, read) => {
  if (!button.matches(WAITS)) return [];
  const block = button.closest("[data-approval]");
  return [...(block?.querySelectorAll("[data-end]") ?? [])].filter((end) => !read.has(end));
};

const able = (root, yes) => {
  for (const control of root.querySelectorAll("[data-act], .kg-input")) control.disabled = !yes;
};

// A card without its kernel: what it says stays, what it offers does not. Our extension looks for its finished form.
const retire = (root) => {
  root.dataset.gone = "";
  able(root, false);
  remark(root, GONE);
};

const revive = (root) => {
  delete root.dataset.gone;
  able(root, true);
  remark(root, "");
};

const slotOf = (key) => {
  const slot = document.createElement("div");
  slot.dataset.slot = key;
  return slot;
};

const place = (root, key, html, opened) => {
  let slot = root.querySelector(`[data-slot="${CSS.escape(key)}"]`);
  if (!slot) {
    slot = slotOf(key);
    (root.querySelector(".kg-body") ?? root).append(slot);
  }
  const before = slot.querySelector("[data-follow]");
  const followed = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 24;
  const scrolled = before ? before.scrollTop : 0;
  // A button that was pressed by keyboard loses the focus when it is disabled, and nobody gave it away.
  const { activeElement, body } = document;
  const left = activeElement === body && root.pressed && slot.contains(root.pressed) ? root.pressed : null;
  const focused = slot.contains(activeElement) ? activeElement : left;
  redraw(slot, fragment(html));
  for (const details of slot.querySelectorAll("details[data-keep]")) {
    if (opened.has(details.dataset.keep)) details.open = opened.get(details.dataset.keep);
  }
  const after = slot.querySelector("[data-follow]");
  if (after) after.scrollTop = followed ? after.scrollHeight : scrolled;
  if (focused && focused !== document.activeElement) refocus(slot, focused);
  root.watch();
};

// Whoever works by keyboard stays where they were: on the same button, or on what became of it.
const refocus = (slot, focused) => {
  const wanted = mark(focused);
  const keep = focused.closest("summary")?.parentElement.dataset.keep;
  const of = focused.closest("[data-of]")?.dataset.of ?? focused.dataset.path;
  let found = null;
  if (wanted) found = [...slot.querySelectorAll("[data-act]")].find((button) => mark(button) === wanted);
  else if (keep) found = slot.querySelector(`details[data-keep="${CSS.escape(keep)}"] > summary`);
  // Never on the next button of its kind: a second press of the key would decide what nobody has looked at.
  if (!found && of) found = slot.querySelector(`[data-of="${CSS.escape(of)}"]`);
  found ??= slot.querySelector('[role="group"]');
  if (!found) return;
  if (!found.matches("button, summary, [tabindex]")) found.tabIndex = -1;
  found.focus({ preventScroll: true });
};

export default () => {
  const parts = new Map();
  const arrived = new Map();
  const opened = new Map();
  const views = new Set();
  // Buttons that were pressed and of which the kernel has not said that it heard.
  const unheard = new Set();
  // Pressed buttons whose answer is not there yet; while it is not, those beside them are not free.
  const unanswered = new Set();
  let gone = false;
  let label = "";

  const lose = () => {
    gone = true;
    for (const root of views) retire(root);
  };

  const hear = () => {
    for (const waiting of unheard) waiting();
    unheard.clear();
    if (!gone) return;
    gone = false;
    for (const root of views) revive(root);
  };

  // Questions that were announced, and whether the end was.
  const heardOf = new Set();
  const listen = (html) => {
    for (const news of fragment(html).querySelectorAll("[data-approval], [data-final]")) {
      const about = news.dataset.approval ?? "the end";
      if (heardOf.has(about)) continue;
      heardOf.add(about);
      if (news.dataset.approval) announce(`${news.getAttribute("aria-label")}. It waits for your answer`);
      else announce(`${label}: ${news.textContent}`);
    }
  };

  const take = (changed, ages = {}) => {
    for (const [key, html] of Object.entries(changed)) {
      if (html.includes("data-approval=") || html.includes("data-final")) listen(html);
      parts.set(key, html);
      arrived.set(key, performance.now() - 1000 * (ages[key] ?? 0));
    }
    for (const root of views) {
      const before = places(root);
      for (const [key, html] of Object.entries(changed)) place(root, key, html, opened);
      if (places(root) !== before) settle(root);
    }
    // The answer is there when the button that was pressed is not offered any more.
    for (const { slot, wanted, free } of unanswered) {
      const offered = [...slot.querySelectorAll("[data-act]")].some((button) => mark(button) === wanted);
      if (slot.dataset.slot in changed && !offered) free();
    }
  };

  const tell = (id, html) => {
    for (const root of views) {
      const about = CSS.escape(id);
      const block = id ? root.querySelector(`[data-approval="${about}"], [data-lease="${about}"], [data-block="${about}"]`) : root;
      const told = (block ?? root).querySelector(".kg-told");
      told?.replaceChildren(fragment(html));
      for (const button of (block ?? root).querySelectorAll("[data-act]")) button.disabled = false;
      (block ?? root).removeAttribute("aria-busy");
    }
  };

  return {
    initialize({ model }) {
      label = model.get("label");
      take(model.get("parts"));
      model.on("msg:custom", (message) => {
        hear();
        if (message.kind === "parts") take(message.parts, message.ages);
        if (message.kind === "told") tell(message.id, message.html);
        if (message.kind === "seen?" && views.size) model.send({ act: "seen" });
      });
      // After a reload the model comes back with the parts of its beginning; ask for those of now.
      model.send({ act: "sync" });
      // Said when the card loses its kernel, and when it is tied to one again: then whoever is there answers.
      let tied = true;
      const turned = () => {
        tied = !tied;
        if (tied) model.send({ act: "sync" });
        else lose();
      };
      const changed = (_, status) => {
        if (GONE_STATUS.has(status)) lose();
      };
      model.on("comm_live_update", turned);
      const kernel = model.widget_manager?.kernel;
      kernel?.statusChanged?.connect(changed);
      return () => {
        model.off("comm_live_update", turned);
        kernel?.statusChanged?.disconnect(changed);
      };
    },

    render({ model, el }) {
      const root = document.createElement("div");
      root.className = "kg-card kg-live tex2jax_ignore mathjax_ignore";
      root.setAttribute("role", "region");
      root.setAttribute("aria-label", model.get("label"));
      // Enter and blank press the focused button instead of moving through the notebook.
      root.dataset.lmSuppressShortcuts = "true";
      if (parts.has("all")) {
        root.append(slotOf("all"));
      } else {
        const body = document.createElement("div");
        body.className = "kg-body";
        root.append(...ABOVE.map(slotOf), body, ...BELOW.map(slotOf));
      }
      el.append(root);
      views.add(root);
      // The ends are the elements themselves: what is drawn anew in their place has to be read anew.
      const read = new WeakSet();
      const allowable = () => {
        for (const button of root.querySelectorAll(WAITS)) {
          const waits = unread(button, read).length > 0;
          if (waits) button.setAttribute("aria-disabled", "true");
          else button.removeAttribute("aria-disabled");
        }
      };
      const watcher = new IntersectionObserver(
        (entries) => {
          for (const { isIntersecting, target } of entries) if (isIntersecting) read.add(target);
          allowable();
        },
        { threshold: 0.5 },
      );
      root.watch = () => {
        for (const end of root.querySelectorAll("[data-end]")) watcher.observe(end);
        allowable();
      };
      for (const [key, html] of parts) place(root, key, html, opened);
      settle(root);
      if (gone) retire(root);

      const press = (button) => {
        const block = button.closest("[data-block], [data-lease]") ?? root;
        const [end] = unread(button, read);
        if (end) {
          const told = block.querySelector(".kg-told");
          if (told) told.textContent = NOT_READ;
          return;
        }
        const content = { act: button.dataset.act, id: button.dataset.id ?? "", path: button.dataset.path ?? null };
        if (button.dataset.ids) content.ids = button.dataset.ids.split(" ");
        if (button.dataset.answer !== undefined) content.answer = button.dataset.answer;
        const fields = [...block.querySelectorAll("[data-field]")];
        if (fields.length) content.fields = Object.fromEntries(fields.map((one) => [one.dataset.field, one.value]));
        const input = block.querySelector(".kg-input");
        if (content.act === "answer" || content.act === "say") {
          content.answer ??= input.value;
          if (!content.answer.trim()) return input.focus();
        }
        // What a plan may cost is said beside its buttons; nothing there is said as well.
        const budget = content.act === "allow" && block.querySelector("[data-budget]");
        if (budget) {
          content.answer = [budget.value.trim() || "no budget", button.dataset.add].filter(Boolean).join(" ");
        }
        // To open something decides nothing: its button keeps the focus, and can be pressed again.
        const pressed = content.act === "open" ? [] : [...block.querySelectorAll("[data-act]")];
        root.pressed = document.activeElement === button ? button : null;
        for (const other of pressed) other.disabled = true;
        block.setAttribute("aria-busy", "true");
        const waits = { slot: button.closest("[data-slot]") ?? root, wanted: mark(button) };
        const free = () => {
          unanswered.delete(waits);
          root.pressed = null;
          if (gone) return;
          for (const other of pressed) other.disabled = false;
          block.removeAttribute("aria-busy");
        };
        const silent = setTimeout(() => {
          free();
          if (!gone) remark(root, NO_ANSWER);
        }, ANSWER_MS);
        unheard.add(() => {
          clearTimeout(silent);
          if (!gone) remark(root, "");
          // What was said is the kernel's now; what is typed since stays.
          if (content.act === "say" && input.value === content.answer) input.value = "";
        });
        waits.free = free;
        unanswered.add(waits);
        model.send(content);
        setTimeout(free, GIVE_UP_MS);
      };

      root.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-act]");
        if (!button || button.disabled || gone) return;
        event.preventDefault();
        press(button);
      });
      root.addEventListener("keydown", (event) => {
        const unfolded = event.key === "Escape" && event.target.closest("details[open]");
        if (unfolded) {
          event.stopPropagation();
          unfolded.open = false;
          unfolded.querySelector(":scope > summary").focus();
          return;
        }
        if (event.key !== "Enter" || !event.target.matches("input.kg-input")) return;
        event.preventDefault();
        const block = event.target.closest("[data-approval], [data-block]");
        const sends = block.querySelector('[data-act="answer"], [data-act="say"], [data-enter]');
        if (sends && !sends.disabled && !gone) press(sends);
      });
      root.addEventListener(
        "toggle",
        (event) => {
          if (event.target.dataset?.keep) opened.set(event.target.dataset.keep, event.target.open);
        },
        true,
      );

      let told = false;
      const timer = setInterval(() => {
        if (!gone) tick(root, arrived);
        // Known once the card hangs in the page: whoever shows it leaves it alone when its output is written anew.
        if (told || !root.closest(".kg-host")) return;
        told = true;
        model.send({ act: "hosted" });
      }, TICK_MS);
      return () => {
        clearInterval(timer);
        watcher.disconnect();
        views.delete(root);
        // An output that is written anew has another view in a moment; one that was cleared has none.
        setTimeout(() => views.size || gone || model.send({ act: "cleared" }), CLEARED_MS);
      };
    },
  };
};
