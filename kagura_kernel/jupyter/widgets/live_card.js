// A live card. It holds no knowledge of runs: the kernel sends parts as HTML under keys, the card puts them in place,
// keeps what the reader unfolded, lets the clocks tick, and tells the kernel which button was pressed.

const TICK_MS = 250;
const GIVE_UP_MS = 10000;

const face = (seconds) => {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

const fragment = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
};

// Clocks count from the moment their part arrived, so that the clocks of kernel and browser need not agree.
const tick = (root, arrived) => {
  for (const slot of root.querySelectorAll("[data-slot]")) {
    const since = (performance.now() - (arrived.get(slot.dataset.slot) ?? performance.now())) / 1000;
    for (const clock of slot.querySelectorAll("[data-elapsed]")) {
      clock.textContent = face(Number(clock.dataset.elapsed) + since);
    }
    for (const count of slot.querySelectorAll("[data-left]")) {
      const left = Math.max(0, Number(count.dataset.left) - since);
      count.querySelector(".kg-face").textContent = face(Math.ceil(left));
      count.querySelector(".kg-bar i").style.width = `${(100 * left) / Number(count.dataset.total)}%`;
    }
  }
};

const place = (root, key, html, opened) => {
  const parent = key === "head" || key === "all" ? root : root.querySelector(".kg-body");
  let slot = root.querySelector(`[data-slot="${CSS.escape(key)}"]`);
  if (!slot) {
    slot = document.createElement("div");
    slot.dataset.slot = key;
    if (parent === root) root.prepend(slot);
    else parent.append(slot);
  }
  const before = slot.querySelector("[data-follow]");
  const followed = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 24;
  const scrolled = before ? before.scrollTop : 0;
  const focused = slot.contains(document.activeElement) ? document.activeElement.dataset.act : null;
  slot.replaceChildren(fragment(html));
  for (const details of slot.querySelectorAll("details[data-keep]")) {
    if (opened.has(details.dataset.keep)) details.open = opened.get(details.dataset.keep);
  }
  const after = slot.querySelector("[data-follow]");
  if (after) after.scrollTop = followed ? after.scrollHeight : scrolled;
  if (focused) slot.querySelector(`[data-act="${CSS.escape(focused)}"]`)?.focus();
};

export default () => {
  const parts = new Map();
  const arrived = new Map();
  const opened = new Map();
  const views = new Set();

  const take = (changed) => {
    for (const [key, html] of Object.entries(changed)) {
      parts.set(key, html);
      arrived.set(key, performance.now());
      for (const root of views) place(root, key, html, opened);
    }
  };

  const tell = (id, text) => {
    for (const root of views) {
      const block = id ? root.querySelector(`[data-approval="${CSS.escape(id)}"]`) : root;
      const told = (block ?? root).querySelector(".kg-told");
      if (told) told.textContent = text;
      for (const button of (block ?? root).querySelectorAll("[data-act]")) button.disabled = false;
    }
  };

  return {
    initialize({ model }) {
      take(model.get("parts"));
      model.on("msg:custom", (message) => {
        if (message.kind === "parts") take(message.parts);
        if (message.kind === "told") tell(message.id, message.text);
      });
      // After a reload the model comes back with the parts of its beginning; ask for those of now.
      model.send({ act: "sync" });
    },

    render({ model, el }) {
      const root = document.createElement("div");
      root.className = "kg-card kg-live tex2jax_ignore mathjax_ignore";
      root.setAttribute("role", "region");
      root.setAttribute("aria-label", model.get("label"));
      // Enter and blank press the focused button instead of moving through the notebook.
      root.dataset.lmSuppressShortcuts = "true";
      const body = document.createElement("div");
      body.className = "kg-body";
      if (model.get("label").startsWith("Changes")) root.append(document.createElement("span"));
      else root.append(body);
      el.append(root);
      views.add(root);
      for (const [key, html] of parts) place(root, key, html, opened);

      const press = (button) => {
        const block = button.closest("[data-approval]") ?? root;
        const content = { act: button.dataset.act, id: button.dataset.id ?? "", path: button.dataset.path ?? null };
        if (content.act === "answer") {
          const input = block.querySelector(".kg-input");
          content.answer = button.dataset.answer ?? input.value;
          if (!content.answer.trim()) return input.focus();
        }
        const pressed = [...block.querySelectorAll("[data-act]")];
        for (const other of pressed) other.disabled = true;
        block.setAttribute("aria-busy", "true");
        model.send(content);
        setTimeout(() => {
          for (const other of pressed) other.disabled = false;
          block.removeAttribute("aria-busy");
        }, GIVE_UP_MS);
      };

      root.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-act]");
        if (!button || button.disabled) return;
        event.preventDefault();
        press(button);
      });
      root.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || !event.target.matches(".kg-input")) return;
        event.preventDefault();
        press(event.target.closest("[data-approval]").querySelector('[data-act="answer"]'));
      });
      root.addEventListener(
        "toggle",
        (event) => {
          if (event.target.dataset?.keep) opened.set(event.target.dataset.keep, event.target.open);
        },
        true,
      );

      const timer = setInterval(() => tick(root, arrived), TICK_MS);
      return () => {
        clearInterval(timer);
        views.delete(root);
      };
    },
  };
};
