// Requests to the server: JSON in and out, errors as sentences, slow work as jobs.

import { S } from "./strings.js";

export async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error(S.noAnswer);
  }
}

export async function ask(path, body) {
  const options = body === undefined ? {} :
    { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), keepalive: true }; // sent, though the page is left
  const answer = await reach(path, options);
  const value = answer.ok ? await answer.json() : await refusal(answer);
  if (!answer.ok && !value.state) throw new Error(value.error);
  return value;
}

// What an answer says that is not a yes; the page of a server that was started again hears it as plain text.
export async function refusal(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text);
  } catch {
    return { error: answer.status === 403 ? `${text} ${S.nothingDone}` : S.serverSaid(answer.status) };
  }
}

export const isOpen = (job) => job.state === "waiting" || job.state === "running";
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Wait for a job; `tell` hears it again and again.
export async function follow(job, tell = () => {}) {
  let now = job;
  while (isOpen(now)) {
    tell(now);
    await pause(300);
    now = await ask(`api/jobs/${job.id}`);
  }
  tell(now);
  if (now.state !== "done") throw new Error(now.error || S.jobStates[now.state]);
  return now;
}

// Start slow work on the server and wait for it.
export const work = async (path, body, tell) => follow(await ask(path, body), tell);

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
