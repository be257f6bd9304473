// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

"use strict";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
let shown = Number(main.dataset.version);
let newest = shown;
let loading = false;

// Who is about to copy something is not disturbed.
function selecting() {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && main.contains(selection.anchorNode);
}

function tell(text) {
  connection.textContent = text;
  connection.hidden = text === "";
}

async function load() {
  if (loading || shown === newest || selecting()) {
    return;
  }
  loading = true;
  try {
    const answer = await fetch("/content", { cache: "no-store" });
    if (answer.ok) {
      const text = await answer.text();
      if (!selecting()) {
        main.innerHTML = text;
        shown = Number(answer.headers.get("X-Version"));
        main.dataset.version = String(shown);
      }
    }
  } catch {
    // The stream of events says that the dashboard does not answer.
  } finally {
    loading = false;
  }
  if (shown < newest) {
    setTimeout(load, 200);
  }
}

const events = new EventSource("/events");
events.onmessage = (event) => {
  const news = JSON.parse(event.data);
  newest = news.version;
  document.title = news.title;
  tell("");
  load();
};
events.onerror = () => {
  tell("The dashboard does not answer: what you see is old. Is kubectl livecpm dashboard still running?");
};
document.addEventListener("selectionchange", () => { setTimeout(load, 500); });

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button === null) {
    return;
  }
  navigator.clipboard.writeText(button.dataset.copy).then(
    () => { button.textContent = "copied"; },
    () => { button.textContent = "select and copy it"; });
});
