// The session of a TypeScript client: openapi-typescript made schema.ts of the server's
// document, openapi-fetch calls by it. Settings, a start, searches.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined>; exit(code: number): never };

type Task = components["schemas"]["AppConversationStartTask"];

const client = createClient<paths>({
  baseUrl: process.env["COMPAT_HOST"] ?? "",
  headers: { "X-Session-API-Key": process.env["COMPAT_KEY"] ?? "" },
});
let id = "";

function must<T>(what: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const end = Date.now() + 60_000;
  while (Date.now() < end) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${what} did not come`);
}

async function settings(): Promise<void> {
  must("storing", await client.POST("/api/v1/settings", { body: { git_user_name: "Generated TypeScript" } }));
  const loaded = must("loading", await client.GET("/api/v1/settings"));
  if (loaded.git_user_name !== "Generated TypeScript") throw new Error(JSON.stringify(loaded));
}

async function start(): Promise<void> {
  const task: Task = must("starting", await client.POST("/api/v1/app-conversations", {
    body: {
      title: "of generated TypeScript",
      initial_message: { role: "user", run: true, content: [{ type: "text", text: "hello there" }] },
    },
  }));
  id = await until("READY", async () => {
    const [now] = must("the task", await client.GET("/api/v1/app-conversations/start-tasks", { params: { query: { ids: [task.id] } } }));
    if (now?.status === "ERROR") throw new Error(now.detail ?? "no detail");
    return now?.app_conversation_id ?? undefined;
  });
}

async function search(): Promise<void> {
  const found = must("searching", await client.GET("/api/v1/app-conversations/search", { params: { query: { title__contains: "GENERATED TYPE" } } }));
  if (found.items.length !== 1 || found.items[0]?.id !== id) throw new Error(JSON.stringify(found));
}

async function events(): Promise<void> {
  await until("an answer", async () => {
    const page = must("searching", await client.GET("/api/v1/conversation/{conversation_id}/events/search", {
      params: { path: { conversation_id: id }, query: { kind__eq: "MessageEvent" } },
    }));
    return page.items.find((e) => e.source === "agent" && e["llm_message"] !== undefined);
  });
}

async function errors(): Promise<void> {
  const answer = await client.GET("/api/v1/app-conversations/{conversation_id}", {
    params: { path: { conversation_id: "00000000-0000-4000-8000-000000000000" } },
  });
  if (answer.response.status !== 404 || answer.error === undefined) throw new Error(`${answer.response.status}`);
}

async function remove(): Promise<void> {
  const gone = must("deleting", await client.DELETE("/api/v1/app-conversations/{conversation_id}", { params: { path: { conversation_id: id } } }));
  if (!gone.success) throw new Error("no success");
}

for (const [step, run] of Object.entries({ settings, start, search, events, errors, delete: remove })) {
  try {
    await run();
    console.log(JSON.stringify({ step, status: "ok" }));
  } catch (error) {
    console.log(JSON.stringify({ step, status: "failed", detail: String(error) }));
  }
}
console.log(JSON.stringify({ do: "end" }));
