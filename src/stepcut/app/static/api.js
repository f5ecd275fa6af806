// Requests to the server: JSON, errors as messages, slow work as jobs.

import { S } from "./strings.js";

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error(S.noAnswer);
  }
}

export async function ask(path, body) {
  const text = JSON.stringify(body);
  const options = body === undefined ? {} :
    // survives leaving the page; browsers allow that for 64 KB
    { method: "POST", headers: { "content-type": "application/json" }, body: text,
      keepalive: text.length < 20_000 };
  const answer = await reach(path, options);
  const value = answer.ok ? await answer.json() : await refusal(answer);
  if (!answer.ok && !value.state) throw new Error(value.error);
  return value;
}

// The error of a response; a server with another token refuses old pages.
async function refusal(answer) {
  const value = await answer.json().catch(() => ({ error: S.serverAnswered(answer.status) }));
  return answer.status === 403 ? { error: `${value.error} ${S.nothingDone}` } : value;
}

export const isOpen = (job) => job.state === "waiting" || job.state === "running";
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Wait for a job; `onprogress(job)` is called after every poll.
export async function follow(job, onprogress = () => {}) {
  let now = job;
  while (isOpen(now)) {
    onprogress(now);
    await pause(300);
    now = await ask(`api/jobs/${job.id}`);
  }
  onprogress(now);
  if (now.state !== "done") throw new Error(now.error || S.jobStates[now.state]);
  return now;
}

// Start a job and wait for it.
export const work = async (path, body, onprogress) => follow(await ask(path, body), onprogress);

export async function save(address) {
  const answer = await reach(address);
  if (!answer.ok) throw new Error((await refusal(answer)).error);
  const named = /filename\*=utf-8''(.*)$/.exec(answer.headers.get("content-disposition") || "");
  const name = named ? decodeURIComponent(named[1]) : "export";
  const url = URL.createObjectURL(await answer.blob());
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  return name;
}
