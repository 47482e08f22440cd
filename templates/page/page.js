// The page of `buddy serve`: a session as it runs. Everything is put in as text; nothing is ever parsed as HTML.

const token = location.hash.slice(1);
const byId = (id) => document.getElementById(id);
const session = { tasks: new Map(), requests: new Map(), questions: new Map(), shown: 0, lastId: "", cost: "", askedAt: -Infinity, holding: 0 };

// ---- text -------------------------------------------------------------------------------------------------

// Escape sequences of terminals, and characters that a person does not see or that reorder others.
const ESCAPES = /\u001b(?:\[[ -?]*[@-~]|[\]PX^_k][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|[ -/]*[0-~]?)|\u009b[ -?]*[@-~]/gu;
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0000}-\u{e0fff}]/gu;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0000}-\u{e0fff}⟨⟩]/gu;
const code = (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** Return text without what could mislead a reader. */
function clean(text) {
  return text.replace(ESCAPES, "").replace(UNSEEN, (sign) => (sign === "\n" || sign === "\t" ? sign : ""));
}

/** Return text for a decision: nothing is dropped, and everything that is not seen is named. */
function visible(text) {
  return text
    .replace(INVISIBLE, (sign) => (sign === "\n" ? sign : code(sign)))
    .replace(/ {17,}/g, (run) => `⟨${run.length} spaces⟩`)
    .replace(/\n(?: *\n){2,}/g, (run) => `\n⟨${run.split("\n").length - 2} blank lines⟩\n`);
}

/** Return a path or a rule for a decision: buddy has named what is not seen in most of them already. */
function named(text) {
  return text.split(/([⟨⟩])/).map((part, at) => (at % 2 ? part : visible(part))).join("");
}

function element(kind, className = "", text = "") {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

const money = (dollars, known = true) => `${known ? "" : "≥ "}$${dollars.toFixed(dollars && dollars < 0.1 ? 4 : 2)}`;
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Show an answer: code between fences, headings bold, the rest as it was written. */
function fillText(target, text) {
  target.replaceChildren();
  clean(text).split(/^ {0,3}```[^\n]*$/m).forEach((part, at) => {
    if (at % 2) {
      target.append(element("pre", "", part.replace(/^\n|\n$/g, "")));
      return;
    }
    for (const piece of part.split(/^(#{1,6} [^\n]*)$/m)) {
      const heading = piece.match(/^#{1,6} (.*)$/);
      if (heading) target.append(element("strong", "", heading[1]));
      else if (piece.trim()) target.append(element("span", "", piece.replace(/^\n+|\n+$/g, "")));
    }
  });
}

function diffLines(text, show) {
  const shown = element("pre");
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "other";
    shown.append(element("span", kind, show(line) || " "));
  }
  return shown;
}

function diffOf(files, show) {
  return files.flatMap((file) => {
    const target = file.new_path ? ` → ${named(file.new_path)}` : "";
    const title = `${file.change} ${named(file.path)}${target}  +${file.added} −${file.removed}`;
    return [element("div", "dim", title), ...(file.diff ? [diffLines(file.diff, show)] : [])];
  });
}

/** Return the elements of a display; `show` makes its texts harmless. */
function displayOf(display, show) {
  switch (display.type) {
    case "diff":
      return diffOf(display.files, show);
    case "command": {
      const end = display.ended || (display.exit_code ? `exit code ${display.exit_code}` : "");
      const parts = [element("pre", "", show(display.command))];
      if (display.output) parts.push(element("pre", "", show(display.output)));
      if (end || display.limit) parts.push(element("div", "dim", show([end, display.limit].filter(Boolean).join(" · "))));
      return parts;
    }
    case "files":
      return [element("div", "dim", show(display.summary)), element("pre", "", show(display.paths.join("\n")))];
    case "checklist": {
      const marks = { pending: "☐", active: "▸", done: "☑", dropped: "☒" };
      return [element("pre", "", display.items.map((item) => `${marks[item.state]} ${show(item.text)}`).join("\n"))];
    }
    default: {
      const parts = display.summary ? [element("div", "dim", show(display.summary))] : [];
      if (display.body) parts.push(element("pre", "", show(display.body)));
      return parts;
    }
  }
}

// ---- tasks ------------------------------------------------------------------------------------------------

function taskOf(taskId) {
  let task = session.tasks.get(taskId);
  if (!task) {
    const tab = element("button");
    tab.type = "button";
    tab.append(element("span", "title"), element("small"));
    tab.addEventListener("click", () => showTask(taskId));
    task = { facts: null, entries: new Map(), replies: new Set(), thread: element("div", "thread"), tab };
    session.tasks.set(taskId, task);
    byId("tasks").append(tab);
  }
  return task;
}

const STATES = { waiting: "waits for you" };

function setFacts(facts) {
  const task = taskOf(facts.task_id);
  task.facts = facts;
  task.tab.className = facts.state;
  task.tab.children[0].textContent = `${facts.task_id} ${clean(facts.title) || "new task"}`;
  const context = facts.context_limit ? ` · ${Math.round((100 * facts.context_tokens) / facts.context_limit)} %` : "";
  const waiting = facts.waiting.length ? ` · ${facts.waiting.length} queued` : "";
  const state = facts.is_closed ? "closed" : STATES[facts.state] || facts.state;
  const target = facts.target ? ` · on ${clean(facts.target)}` : "";
  task.tab.children[1].textContent = `${state}${target} · ${money(facts.cost_usd, facts.cost_known)}${context}${waiting}`;
  if (facts.task_id === session.shown) showButtons();
  showStatus("");
}

function showTask(taskId) {
  const { thread } = taskOf(taskId);
  session.shown = taskId;
  for (const [number, task] of session.tasks) task.tab.setAttribute("aria-current", String(number === taskId));
  byId("conversation").replaceChildren(thread);
  byId("conversation").scrollTop = byId("conversation").scrollHeight;
  showButtons();
}

function isRunning() {
  const facts = session.tasks.get(session.shown)?.facts;
  return facts ? facts.state === "running" || facts.state === "waiting" : false;
}

function showButtons() {
  byId("cancel").hidden = !isRunning();
  byId("send").textContent = isRunning() ? "Steer" : "Send";
}

function showStatus(problem) {
  const costs = [...session.tasks.values()].map((task) => task.facts).filter(Boolean);
  const total = costs.reduce((sum, facts) => sum + facts.cost_usd, 0);
  byId("status").className = problem ? "lost" : "";
  byId("status").textContent = problem || `${session.mode} mode · ${money(total, costs.every((facts) => facts.cost_known))}`;
}

// ---- conversations: one element for each message, call or notice, found by its id ----------------------------

/** Change the conversation of a task and stay at its end where the person is there. */
function change(task, work) {
  const view = byId("conversation");
  const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 80;
  work();
  if (atEnd && task.thread.isConnected) view.scrollTop = view.scrollHeight;
}

function entry(task, key, make) {
  let found = task.entries.get(key);
  if (!found) {
    found = make();
    task.entries.set(key, found);
    task.thread.append(found.root);
  }
  return found;
}

function notice(task, level, text) {
  task.thread.append(element("div", `notice ${level}`, clean(text)));
}

function addPrompt(task, message) {
  entry(task, `prompt ${message.id}`, () => {
    const root = element("div", "prompt");
    const texts = message.parts.filter((part) => part.type === "text").map((part) => clean(part.text));
    root.textContent = texts.join("");
    for (const part of message.parts) {
      if (part.type === "attachment") root.append(element("div", "dim", clean(part.title)));
      if (part.type === "image") root.append(element("div", "dim", `picture (${clean(part.media_type)})`));
    }
    return { root };
  });
}

/** Return a text node that grows, for a block of a reply that is being written. */
function block(task, event, kind) {
  return entry(task, `${kind} ${event.reply_id} ${event.block}`, () => {
    const text = document.createTextNode("");
    if (kind === "text") {
      const root = element("div", "text");
      root.append(text);
      return { root, text };
    }
    const root = element("details", "dim");
    root.append(element("summary", "", "thinking"), element("div", "text"));
    root.lastChild.append(text);
    return { root, text };
  });
}

function endReply(task, message) {
  for (const [key, one] of task.entries) {
    if (key.startsWith("text ") || key.startsWith("thinking ") || key.startsWith("preview ")) {
      one.root.remove();
      task.entries.delete(key);
    }
  }
  if (task.replies.has(message.id)) return;
  task.replies.add(message.id);
  for (const part of message.parts) {
    if (part.type === "thinking" && part.text.trim()) {
      const root = element("details", "dim");
      root.append(element("summary", "", "thinking"), element("div", "text", clean(part.text)));
      task.thread.append(root);
    } else if (part.type === "text" && part.text.trim()) {
      const root = element("div", "text");
      fillText(root, part.text);
      task.thread.append(root);
    } else if (part.type === "call") {
      tool(task, part.id, part);
    }
  }
  if (message.finish === "cut") notice(task, "warning", "This reply broke off here.");
}

function tool(task, callId, call) {
  return entry(task, `call ${callId}`, () => {
    const root = element("details", "tool");
    const summary = element("summary", "", call ? clean(`${call.name} ${subjectOf(call.arguments)}`) : "");
    const body = element("div");
    root.append(summary, body);
    return { root, summary, body, title: summary.textContent, output: null };
  });
}

/** Return the first text among the arguments of a call. */
function subjectOf(args) {
  try {
    return Object.values(JSON.parse(args)).find((value) => typeof value === "string" && value)?.slice(0, 120) ?? "";
  } catch {
    return "";
  }
}

function finishTool(task, callId, status, parts, seconds) {
  const shown = tool(task, callId, null);
  const time = seconds >= 1 ? ` · ${seconds.toFixed(1)} s` : "";
  shown.summary.textContent = `${shown.title}${status === "ok" ? "" : ` · ${status}`}${time}`;
  shown.root.classList.add(status);
  shown.body.replaceChildren(...parts);
}

function showPreview(task, preview) {
  const shown = entry(task, `preview ${preview.call_id}`, () => {
    const root = element("div");
    root.append(element("div", "dim"), element("pre"));
    return { root };
  });
  const size = preview.lines > 1 ? counted(preview.lines, "line") : counted(preview.chars, "character");
  shown.root.children[0].textContent = `${clean(preview.name)} ${clean(preview.path)} · ${size} …`;
  shown.root.children[1].textContent = clean(preview.end);
  shown.root.children[1].scrollTop = shown.root.children[1].scrollHeight;
}

function addMessage(task, message) {
  if (message.role === "user") addPrompt(task, message);
  else if (message.role === "assistant") endReply(task, message);
  else finishTool(task, message.call_id, message.status, [element("pre", "", clean(message.text))], 0);
}

// ---- events -------------------------------------------------------------------------------------------------

function applyEvent(taskId, event) {
  const task = taskOf(taskId);
  change(task, () => {
    switch (event.type) {
      case "turn_started":
        event.prompts.forEach((message) => addPrompt(task, message));
        break;
      case "steering_accepted":
        addPrompt(task, event.message);
        break;
      case "text_delta":
        if (!task.replies.has(event.reply_id)) block(task, event, "text").text.appendData(clean(event.text));
        break;
      case "thinking_delta":
        if (!task.replies.has(event.reply_id)) block(task, event, "thinking").text.appendData(clean(event.text));
        break;
      case "reply_finished":
        endReply(task, event.message);
        break;
      case "tool_started": {
        const shown = tool(task, event.call.id, event.call);
        shown.title = clean(event.title);
        shown.summary.textContent = shown.title;
        break;
      }
      case "tool_progress": {
        const shown = tool(task, event.call_id, null);
        if (!shown.output) {
          shown.output = element("pre");
          shown.body.append(shown.output);
        }
        shown.output.textContent = (shown.output.textContent + clean(event.text)).slice(-20000);
        break;
      }
      case "tool_finished":
        finishTool(task, event.call_id, event.status, displayOf(event.display, clean), event.seconds);
        break;
      case "approval_requested":
        session.requests.set(event.request_id, { taskId, event });
        showAsked();
        break;
      case "approval_resolved":
        session.requests.delete(event.request_id);
        notice(task, "", `${event.answer === "denied" ? "denied" : event.answer === "withdrawn" ? "withdrawn" : "approved"} by ${event.by}`);
        showAsked();
        break;
      case "retry_scheduled":
        notice(task, "warning", `${event.message}; trying again in ${Math.round(event.delay_s)} s`);
        break;
      case "context_compacted":
        notice(task, "", `context compacted: ${event.tokens_before} → ${event.tokens_after} tokens`);
        break;
      case "notice":
        notice(task, event.level, event.text);
        break;
      case "turn_finished":
        if (event.outcome !== "completed") notice(task, event.outcome === "failed" ? "error" : "warning", `${event.outcome}: ${event.reason}`);
        break;
      default: // reply_started, tool_call_delta, token_usage, library_loading: shown through the task and the preview
    }
  });
}

function applyRecord(name, data) {
  switch (name) {
    case "task":
      setFacts(data);
      break;
    case "preview": {
      const task = taskOf(data.task_id);
      change(task, () => showPreview(task, data));
      break;
    }
    case "question":
      session.questions.set(data.number, data);
      showAsked();
      break;
    case "question_closed":
      session.questions.delete(data.number);
      showAsked();
      break;
    default:
      if (data.event) applyEvent(data.task_id, data.event);
  }
}

// ---- what waits for the person ------------------------------------------------------------------------------

function requestOf({ taskId, event }) {
  const root = element("article", "request");
  root.dataset.request = `${event.request_id} ${event.digest}`;
  root.append(element("h2", "", `Task ${taskId}: ${visible(event.call.name)} (${event.risk} risk)`));
  if (event.reason) root.append(element("div", "dim", visible(event.reason)));
  root.append(...displayOf(event.preview, visible));
  const details = element("details");
  details.append(element("summary", "dim", "the call as the model wrote it"), element("pre", "", visible(event.call.arguments)));
  root.append(details);
  const words = element("input");
  words.placeholder = "why not (for No)";
  words.maxLength = 2000;
  const answers = element("div", "answers");
  const offer = (answer, text, className) => {
    const button = element("button", className, text);
    button.type = "button";
    button.addEventListener("click", async (click) => {
      if (isHasty(click)) return;
      const body = { request_id: event.request_id, digest: event.digest, answer };
      if (answer === "denied") body.words = words.value;
      if (await send("/answer", body)) {
        session.requests.delete(event.request_id);
        showAsked();
      }
    });
    answers.append(button);
  };
  offer("once", "Yes", "yes");
  if (event.session) offer("session", `Yes, this session: ${named(event.session)}`, "");
  if (event.rule) offer("rule", `Yes, always: ${named(event.rule)}`, "");
  offer("denied", "No", "no");
  root.append(answers, words);
  return root;
}

function questionOf(open) {
  const root = element("article", "request");
  root.dataset.request = `question ${open.number}`;
  root.append(element("h2", "", `Task ${open.task_id} asks: ${visible(open.question.question)}`));
  const answers = element("div", "answers");
  const reply = (words) => words.trim() && send("/reply", { question: open.number, words });
  open.question.options.forEach((option, at) => {
    const button = element("button", "", visible(option.description ? `${option.label}: ${option.description}` : option.label));
    button.type = "button";
    button.addEventListener("click", (click) => isHasty(click) || reply(String(at + 1)));
    answers.append(button);
  });
  const words = element("input");
  words.placeholder = "your own words, then Enter";
  words.addEventListener("keydown", (key) => key.key === "Enter" && reply(words.value));
  root.append(answers, words);
  return root;
}

// A click that was meant for what stood here before must not answer what stands here now.
const SEEN_MS = 600;

/** Tell whether a click came too soon after the requests changed to be meant for the one it met. */
function isHasty(click) {
  return click.timeStamp < session.askedAt + SEEN_MS;
}

/** Let no button of the requests answer for a moment. */
function holdAnswers() {
  const asked = byId("asked");
  session.askedAt = performance.now();
  asked.classList.add("changed");
  clearTimeout(session.holding);
  session.holding = setTimeout(() => asked.classList.remove("changed"), SEEN_MS);
}

/** Show open requests; those that are shown already stay as they are, so that no button moves under a finger. */
function showAsked() {
  const wanted = new Map();
  for (const [id, request] of session.requests) wanted.set(`${id} ${request.event.digest}`, () => requestOf(request));
  for (const [number, question] of session.questions) wanted.set(`question ${number}`, () => questionOf(question));
  const gone = [...byId("asked").children].filter((shown) => !wanted.delete(shown.dataset.request));
  for (const shown of gone) shown.remove();
  for (const make of wanted.values()) byId("asked").append(make());
  if (gone.length || wanted.size) holdAnswers();
  const count = session.requests.size + session.questions.size;
  document.title = count ? `(${count}) buddy` : "buddy";
}

// ---- requests -----------------------------------------------------------------------------------------------

const headers = { Authorization: `Bearer ${token}` };

async function send(path, body) {
  try {
    const answer = await fetch(path, {
      method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    const data = await answer.json();
    if (answer.ok) {
      for (const note of data.notes ?? []) notice(taskOf(data.task_id), "warning", note);
      return data;
    }
    notice(taskOf(session.shown), "error", data.error);
  } catch {
    notice(taskOf(session.shown), "error", "Not sent: buddy can't be reached.");
  }
  return null;
}

byId("composer").addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const text = byId("text").value;
  if (!text.trim()) return;
  const wantsNew = submitted.submitter?.value === "new";
  const body = wantsNew ? { text, task_id: session.shown, new_task: true } : { text, task_id: session.shown };
  const accepted = await send(isRunning() && !wantsNew ? "/steer" : "/prompt", body);
  if (!accepted) return;
  if (byId("text").value === text) byId("text").value = "";
  if (wantsNew) showTask(accepted.task_id);
});
byId("text").addEventListener("keydown", (key) => {
  if (key.key === "Enter" && (key.ctrlKey || key.metaKey)) byId("composer").requestSubmit(byId("send"));
});
byId("cancel").addEventListener("click", async () => {
  const cancelled = await send("/cancel", { task_id: session.shown });
  if (cancelled?.texts.length) byId("text").value = [byId("text").value, ...cancelled.texts].filter(Boolean).join("\n\n");
});
byId("changes").addEventListener("click", async () => {
  const answer = await fetch("/diff", { headers });
  const { files = [], error = "" } = await answer.json();
  const shown = files.length ? diffOf(files, visible) : [element("p", "dim", error || "Nothing was changed in this session.")];
  byId("files").replaceChildren(...shown);
  byId("diff").showModal();
});

// ---- the connection -----------------------------------------------------------------------------------------

async function load() {
  const answer = await fetch("/session", { headers });
  if (answer.status === 401) throw new Error("This page needs the whole address that buddy printed, with what stands behind #.");
  if (!answer.ok) throw new Error((await answer.json()).error);
  const state = await answer.json();
  const before = session.shown;
  session.tasks.clear();
  session.requests.clear();
  session.questions.clear();
  byId("tasks").replaceChildren();
  byId("asked").replaceChildren();
  session.mode = state.mode;
  session.lastId = state.last_event_id;
  byId("name").textContent = clean(state.name || state.folder.split("/").pop() || "/");
  for (const { facts, earlier, messages, live, previews } of state.tasks) {
    setFacts(facts);
    const task = taskOf(facts.task_id);
    if (earlier) notice(task, "", `${counted(earlier, "earlier message")} not shown`);
    messages.forEach((message) => addMessage(task, message));
    live.forEach((event) => applyEvent(facts.task_id, event));
    previews.forEach((preview) => showPreview(task, preview));
  }
  for (const { task_id: taskId, event } of state.approvals) session.requests.set(event.request_id, { taskId, event });
  for (const question of state.questions) session.questions.set(question.number, question);
  showAsked();
  showTask(session.tasks.has(before) ? before : state.focus);
  if (state.save_problem) notice(taskOf(session.shown), "error", `not saved: ${state.save_problem}`);
}

/** Read the stream; return what to do then: "again", "load" or "end". */
async function follow() {
  const answer = await fetch("/events", { headers: { ...headers, "Last-Event-ID": session.lastId } });
  if (!answer.ok) throw new Error((await answer.json()).error);
  showStatus("");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return "again";
    const records = (rest + value).split("\n\n");
    rest = records.pop();
    for (const record of records) {
      const fields = Object.fromEntries(record.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (!fields.event) continue;
      if (fields.event === "end") return "end";
      if (fields.event === "reset" || fields.event === "history_changed") {
        await reader.cancel();
        return "load";
      }
      applyRecord(fields.event, JSON.parse(fields.data));
      session.lastId = fields.id;
    }
  }
}

async function run() {
  let next = "load";
  let wait = 500;
  while (next !== "end") {
    try {
      if (next === "load") await load();
      next = await follow();
      wait = 500;
    } catch (error) {
      const isNetwork = error instanceof TypeError;
      showStatus(isNetwork ? "not connected; trying again" : error.message);
      if (!isNetwork && !session.lastId) return;
      next = session.lastId ? "again" : "load";
      await new Promise((resume) => setTimeout(resume, wait));
      wait = Math.min(wait * 2, 10000);
    }
  }
  showStatus("buddy has ended this session");
}

// Another address in the same tab (a new run) is another page.
addEventListener("hashchange", () => location.reload());
run();
