// What the page does beyond links and forms: the sliders of the two clocks, and keys to move about.
"use strict";

(() => {
  const STEPS = 1000;
  const DAY = 86400;

  const pad = (number) => String(number).padStart(2, "0");

  // The value of a datetime-local field, in UTC.
  const written = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${at.getUTCFullYear().toString().padStart(4, "0")}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}` +
      `T${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
  };

  const setUpClock = (clock) => {
    const range = clock.querySelector("[data-range]");
    const field = clock.querySelector("[data-instant]");
    const now = clock.querySelector("[data-now]");
    if (!range || !field || range.dataset.ready) return;
    range.dataset.ready = "yes";
    const start = Number(clock.dataset.start);
    const end = Number(clock.dataset.end);
    const span = end - start;
    if (!(span > 0)) {
      range.hidden = true;
      return;
    }
    range.disabled = false;
    const show = () => {
      const last = Number(range.value) >= STEPS;
      let at = start + (span * Number(range.value)) / STEPS;
      // A place in a long time means a day: to its end, so that what was said on that day is in it.
      if (span > 60 * DAY) at = Math.ceil(at / DAY) * DAY - 60;
      field.value = last ? "" : written(at);
      range.setAttribute("aria-valuetext", last ? "now" : field.value.replace("T", " "));
    };
    range.addEventListener("input", show);
    field.addEventListener("change", () => {
      const at = Date.parse(`${field.value}Z`) / 1000;
      range.value = Number.isNaN(at) ? STEPS : Math.round((STEPS * (at - start)) / span);
    });
    now?.addEventListener("click", () => {
      range.value = STEPS;
      field.value = "";
      field.dispatchEvent(new Event("change", { bubbles: true }));
    });
  };

  const setUp = () => document.querySelectorAll("[data-clock]").forEach(setUpClock);
  document.addEventListener("DOMContentLoaded", setUp);
  document.addEventListener("htmx:load", setUp);

  const links = () => [...document.querySelectorAll("[data-list] a")].filter((link) => link.offsetParent);

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("[data-submit]")) {
      event.target.form.requestSubmit();
      return;
    }
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      event.preventDefault();
      if (field) {
        field.focus();
        field.select();
      } else {
        document.querySelector('nav a[href^="/search"]')?.click();
      }
    } else if (event.key === "j" || event.key === "k") {
      const all = links();
      const at = all.indexOf(document.activeElement);
      const next = event.key === "j" ? Math.min(all.length - 1, at + 1) : Math.max(0, at < 0 ? 0 : at - 1);
      all[next]?.focus();
    }
  });
})();
