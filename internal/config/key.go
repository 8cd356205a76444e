package config

import (
	"log/slog"
	"strings"
	"time"

	"parley/internal/sandbox"
)

// Scope says which commands have a key as a flag.
type Scope uint8

// The scopes.
const (
	ServerScope Scope = 1 << iota // parley serve
	ClientScope
)

// group is a chapter of the reference.
type group string

const (
	groupServer  group = "Server"
	groupAccess  group = "Access"
	groupLog     group = "Log"
	groupSandbox group = "Sandbox"
	groupAgent   group = "Agent"
	groupModel   group = "Model"
	groupMoney   group = "Money"
	groupClient  group = "Client commands"
)

// key describes one member of a Config.
type key struct {
	name       string // in the file; PARLEY_<NAME> in the environment
	group      group
	scope      Scope
	help       string
	flag       string   // "" = no flag
	alsoEnv    []string // further variables; the first one wins over them
	defaultDoc string   // for the reference, where the default depends on the machine
	secret     bool
	list       bool
	value      value
}

// env returns the key's variables, the strongest first.
func (k key) env() []string {
	return append([]string{"PARLEY_" + strings.ToUpper(k.name)}, k.alsoEnv...)
}

// defaults returns a Config before any source was read. Data has no default
// here: it depends on who runs the process.
func defaults() Config {
	return Config{
		Listen:           "127.0.0.1:3000",
		HostDirectories:  HostDirsProof,
		MaxBodyBytes:     16 << 20,
		MaxUploadBytes:   1 << 30,
		LogLevel:         slog.LevelInfo,
		LogFormat:        LogText,
		Sandbox:          SandboxAuto,
		SandboxMemory:    4 << 30,
		SandboxProcesses: 2048,
		SandboxOpenFiles: 65536,
		SandboxDisk:      10 << 30,
		SandboxInodes:    1_000_000,
		SandboxNetwork:   sandbox.NetworkOpen,
		MaxSandboxes:     20,
		IdleTimeout:      20 * time.Minute,
		Confirmation:     ConfirmNothing,
		MaxIterations:    500,
		MaxLogEvents:     250_000,
		MaxLogBytes:      512 << 20,
		Browser:          BrowserAuto,
		RepositoryTrust:  TrustAsk,
		LLMMaxAttempts:   5,
		LLMRetryMin:      8 * time.Second,
		LLMRetryMax:      64 * time.Second,
		LLMTimeout:       5 * time.Minute,
		LLMConcurrency:   64,
		AutoTitles:       true,
		AWSCredentials:   true,

		UnpricedTaskTokens:  2_000_000,
		UnpricedDailyTokens: 10_000_000,
	}
}

// keys binds the table of all keys to c. A test holds it complete.
func (c *Config) keys() []key {
	keys := append(c.serverKeys(), c.accessKeys()...)
	keys = append(keys, c.logKeys()...)
	keys = append(keys, c.sandboxKeys()...)
	keys = append(keys, c.agentKeys()...)
	keys = append(keys, c.modelKeys()...)
	keys = append(keys, c.moneyKeys()...)
	keys = append(keys, c.clientKeys()...)
	for i := range keys {
		_, keys[i].list = keys[i].value.(listValue)
		if !keys[i].secret && keys[i].flag == "" {
			keys[i].flag = strings.ReplaceAll(keys[i].name, "_", "-")
		}
	}
	return keys
}

func (c *Config) serverKeys() []key {
	return []key{
		{name: "listen", group: groupServer, scope: ServerScope,
			help:  "Address and port to listen on. Port 0 takes a free one.",
			value: textValue{&c.Listen, "host:port", listenRule}},
		{name: "data", group: groupServer, scope: ServerScope | ClientScope,
			help:       "Directory of everything the server keeps: database, sandboxes, its key files. Made with mode 0700.",
			defaultDoc: "`$XDG_DATA_HOME/parley` or `~/.local/share/parley`; for root `/var/lib/parley`",
			value:      textValue{&c.Data, "path", pathRule}},
		{name: "public_url", group: groupServer, scope: ServerScope,
			help:       "URL under which users reach the server, with its path prefix if it has one. Every URL the server hands out starts with it.",
			defaultDoc: "built from each request",
			value:      textValue{&c.PublicURL, "http(s) URL", baseURLRule}},
		{name: "demo", group: groupServer, scope: ServerScope,
			help:  "Answer with the built-in scripted model where no LLM is configured. It needs no key and drives real tools in a real sandbox.",
			value: boolValue{&c.Demo}},
	}
}

func (c *Config) accessKeys() []key {
	return []key{
		{name: "session_api_key", group: groupAccess, scope: ServerScope, secret: true, alsoEnv: []string{"SESSION_API_KEY"},
			help:       "API key of the first user, at least 8 characters. Without it the first start makes one and keeps it in `session-key` in the data directory. It has no flag: other users of a machine can read command lines.",
			defaultDoc: "made at the first start",
			value:      secretValue{&c.SessionAPIKey, MinKey}},
		{name: "secret_key", group: groupAccess, scope: ServerScope, secret: true, alsoEnv: []string{"OH_SECRET_KEY"},
			help:       "Key that secrets are encrypted with for clients of the agent-server protocol that ask for them encrypted, at least 16 characters. Servers with the same key read each other's. Without it each user has a key of this installation. It has no flag, as session_api_key.",
			defaultDoc: "derived from the installation's key file",
			value:      secretValue{&c.SecretKey, 16}},
		{name: "cors_origins", group: groupAccess, scope: ServerScope, alsoEnv: []string{"PERMITTED_CORS_ORIGINS"},
			help:  "Origins whose pages may call the API from a browser, besides the server's own. Without it those of this machine (`localhost`, `127.0.0.1`, any port); with it only the listed ones.",
			value: listValue{&c.CORSOrigins, "list of origins", originRule}},
		{name: "allowed_hosts", group: groupAccess, scope: ServerScope,
			help:  "Host names that requests may name, besides loopback, the listen address and the host of public_url. `*` allows all.",
			value: listValue{&c.AllowedHosts, "list of host names", hostRule}},
		{name: "rate_limit", group: groupAccess, scope: ServerScope,
			help:  "Requests a second that one client address may make. Up to twice as many wait for a second, more are refused with 429. Live connections do not count; a reverse proxy on this machine passes its clients' addresses on. 0: no limit. Servers of the legacy API have 10, which users behind one address, or one busy page, soon reach.",
			value: numberValue[int]{&c.RateLimit, 0, 10000}},
		{name: "legacy_conversations", group: groupAccess, scope: ServerScope,
			help:  "Conversations of the legacy API that one user may have running. One more stops the one that was not updated for longest, whatever its agent does. 0: any number, as max_sandboxes bounds them all. Servers of the legacy API have 3.",
			value: numberValue[int]{&c.LegacyConversations, 0, 100000}},
		{name: "legacy_list_age", group: groupAccess, scope: ServerScope,
			help:  "Conversations that are older are left out of the legacy API's list. 0s: none. Servers of the legacy API have 240h.",
			value: durationValue{&c.LegacyListAge, 0, 100 * 365 * 24 * time.Hour}},
		{name: "agent_protocol_version", group: groupAccess, scope: ServerScope,
			help:       "Version of the agent-server protocol that `/server_info` names, for clients that demand a newer one than this build was made after. Nothing else changes.",
			defaultDoc: "the version this build implements",
			value:      textValue{&c.AgentProtocolVersion, "version x.y.z", versionRule}},
		{name: "preview_host", group: groupAccess, scope: ServerScope,
			help:       "Domain whose names below it (`*.preview.example.org`) lead to this server and that is used for nothing else: each preview of a sandbox's port then has an origin of its own, and its pages work whole. Without it browsers show simple pages only, see [sandboxes.md](sandboxes.md).",
			defaultDoc: "`localhost` if listen is on loopback and there is no public_url",
			value:      textValue{&c.PreviewHost, "domain", domainRule}},
		{name: "preview_shared_origin", group: groupAccess, scope: ServerScope,
			help:  "Pages of previews below the public URL may run as this server's own. They then could act as a user who is logged in with a browser. Only where what runs in sandboxes is trusted.",
			value: boolValue{&c.PreviewSharedOrigin}},
		{name: "host_directories", group: groupAccess, scope: ServerScope,
			help:  "Whether a start request may mount a directory of the server's machine. `proof`: yes, if the client shows by a file that it can write there. `off`: never.",
			value: enumValue[string]{&c.HostDirectories, []string{HostDirsProof, HostDirsOff}}},
		{name: "max_body_bytes", group: groupAccess, scope: ServerScope,
			help:  "Largest request body.",
			value: bytesValue{&c.MaxBodyBytes, 64 << 10}},
		{name: "max_upload_bytes", group: groupAccess, scope: ServerScope,
			help:  "Largest file that clients put into a sandbox.",
			value: bytesValue{&c.MaxUploadBytes, 64 << 10}},
	}
}

func (c *Config) logKeys() []key {
	return []key{
		{name: "log_level", group: groupLog, scope: ServerScope,
			help:  "Least important messages to log. Logs go to standard error and hold no secrets.",
			value: levelValue{&c.LogLevel}},
		{name: "log_format", group: groupLog, scope: ServerScope,
			help:  "Form of a log line.",
			value: enumValue[string]{&c.LogFormat, []string{LogText, LogJSON}}},
	}
}

func (c *Config) sandboxKeys() []key {
	return []key{
		{name: "sandbox", group: groupSandbox, scope: ServerScope,
			help:  "Where commands run if no template says otherwise. `local`: Linux namespaces. `docker`: a container engine. `gvisor`: a kernel of its own for each sandbox (needs `runsc` and root). `process`: no isolation at all; must be asked for. `auto`: `local` if this machine can, else the server refuses to start and says why.",
			value: enumValue[string]{&c.Sandbox, []string{SandboxAuto, SandboxLocal, SandboxDocker, SandboxGVisor, SandboxProcess}}},
		{name: "sandbox_specs", group: groupSandbox, scope: ServerScope,
			help:       "Templates that sandboxes are made from; the first is the default. See [sandboxes.md](sandboxes.md). In the file a YAML list, elsewhere its text.",
			defaultDoc: "one of the configured backend",
			value:      specsValue{&c.SandboxSpecs}},
		{name: "sandbox_image", group: groupSandbox, scope: ServerScope,
			help:  "Container image of sandboxes of the docker backend whose template names none.",
			value: textValue{&c.SandboxImage, "image", imageRule}},
		{name: "sandbox_cpus", group: groupSandbox, scope: ServerScope,
			help:  "Processor time of one sandbox, in cores. 0: all cores.",
			value: coresValue{&c.SandboxCPUs}},
		{name: "sandbox_memory", group: groupSandbox, scope: ServerScope,
			help:  "Memory of one sandbox.",
			value: bytesValue{&c.SandboxMemory, 64 << 20}},
		{name: "sandbox_disk", group: groupSandbox, scope: ServerScope,
			help:  "What the files of one sandbox may take on the disk.",
			value: bytesValue{&c.SandboxDisk, 64 << 20}},
		{name: "sandbox_inodes", group: groupSandbox, scope: ServerScope,
			help:  "Files and directories of one sandbox.",
			value: numberValue[int64]{&c.SandboxInodes, 10000, 1 << 31}},
		{name: "sandbox_processes", group: groupSandbox, scope: ServerScope,
			help:  "Processes and threads of one sandbox.",
			value: numberValue[int64]{&c.SandboxProcesses, 16, 1 << 22}},
		{name: "sandbox_open_files", group: groupSandbox, scope: ServerScope,
			help:  "Open files of one process in a sandbox.",
			value: numberValue[uint64]{&c.SandboxOpenFiles, 64, 1 << 30}},
		{name: "sandbox_network", group: groupSandbox, scope: ServerScope,
			help: "What a sandbox may reach. `open`: public addresses and what sandbox_network_allow adds. `allow`: only what sandbox_network_allow lists. `none`: itself only.",
			value: enumValue[sandbox.NetworkMode]{&c.SandboxNetwork,
				[]string{string(sandbox.NetworkOpen), string(sandbox.NetworkAllow), string(sandbox.NetworkNone)}}},
		{name: "sandbox_network_allow", group: groupSandbox, scope: ServerScope,
			help:  "Host names, `*.domain`, addresses and networks, each also with :port. Private addresses and this machine are reachable only if they are listed as addresses or networks.",
			value: listValue{&c.SandboxNetworkAllow, "list of hosts", networkRule}},
		{name: "max_sandboxes", group: groupSandbox, scope: ServerScope,
			help:  "Sandboxes that run at a time. One more pauses the longest unused one that has no run; if all are at work, it waits.",
			value: numberValue[int]{&c.MaxSandboxes, 1, 100000}},
		{name: "idle_timeout", group: groupSandbox, scope: ServerScope,
			help:  "A sandbox that was not used for so long is paused, and resumed when it is needed. 0s: never.",
			value: durationValue{&c.IdleTimeout, 0, 365 * 24 * time.Hour}},
		{name: "sandbox_retention", group: groupSandbox, scope: ServerScope,
			help:  "A sandbox that was paused for so long is deleted with its files; its conversations stay readable. 0s: never.",
			value: durationValue{&c.SandboxRetention, 0, 10 * 365 * 24 * time.Hour}},
		{name: "docker_host", group: groupSandbox, scope: ServerScope, alsoEnv: []string{"DOCKER_HOST"},
			help:       "Address of the container engine of the docker backend: `unix:///path`.",
			defaultDoc: "`unix:///var/run/docker.sock`",
			value:      textValue{&c.DockerHost, "address", dockerHostRule}},
		{name: "runsc", group: groupSandbox, scope: ServerScope,
			help:       "Program of the gvisor backend.",
			defaultDoc: "`runsc` on PATH",
			value:      textValue{&c.Runsc, "path", fileRule}},
		{name: "image_registries", group: groupSandbox, scope: ServerScope,
			help:  "Registries that container images for the local and gvisor backends may also be pulled from, beside those on public addresses: host or host:port. Those on loopback may be without TLS.",
			value: listValue{&c.ImageRegistries, "list of hosts", registryRule}},
		{name: "image_credentials", group: groupSandbox, scope: ServerScope,
			help:  "File with the logins of registries, in the form of `~/.docker/config.json` (its `auths`).",
			value: textValue{&c.ImageCredentials, "path", fileRule}},
	}
}

func (c *Config) agentKeys() []key {
	return []key{
		{name: "confirmation", group: groupAgent, scope: ServerScope,
			help:  "Which actions of agents wait for the user at least, whatever settings and requests say. `risky`: those that the model or the server's own rules take for dangerous, and those that cannot be judged. `all`: every action.",
			value: enumValue[string]{&c.Confirmation, []string{ConfirmNothing, ConfirmRisky, ConfirmAll}}},
		{name: "max_iterations", group: groupAgent, scope: ServerScope,
			help:  "Steps that one run makes at most where neither the settings nor the request say it.",
			value: numberValue[int]{&c.MaxIterations, 1, 1_000_000}},
		{name: "max_conversation_events", group: groupAgent, scope: ServerScope,
			help:  "Events that one conversation has at most, give or take what one step adds. One that is full can be read, forked from an earlier event and deleted, and takes no messages.",
			value: numberValue[int64]{&c.MaxLogEvents, 1000, 100_000_000}},
		{name: "max_conversation_bytes", group: groupAgent, scope: ServerScope,
			help:  "The same in bytes. The server has the events of conversations that are in use in memory.",
			value: bytesValue{&c.MaxLogBytes, 1 << 20}},
		{name: "browser", group: groupAgent, scope: ServerScope,
			help:  "Whether agents have the browser without asking for it. `auto`: where sandboxes have a Chromium. `off`: only conversations that name it. Its tools are about 2,000 tokens of every prompt.",
			value: enumValue[string]{&c.Browser, []string{BrowserAuto, BrowserOff}}},
		{name: "web_search_url", group: groupAgent, scope: ServerScope,
			help:       "Address of a service that speaks Tavily's API, for the web search of users with a `search_api_key`.",
			defaultDoc: "`https://api.tavily.com`",
			value:      textValue{&c.WebSearchURL, "http(s) URL", baseURLRule}},
		{name: "repository_trust", group: groupAgent, scope: ServerScope,
			help:  "Whether hooks, MCP servers and set-up scripts that a repository or a plugin brings run only after the user trusted that content. `ask`: yes. `always`: they run without a question, inside the sandbox as ever.",
			value: enumValue[string]{&c.RepositoryTrust, []string{TrustAsk, TrustAlways}}},
		{name: "skill_collections", group: groupAgent, scope: ServerScope,
			help:  "Skills and sub-agents for all conversations: `[org:|public:]name=location`, where location is a directory of this machine or a git repository, `https://host/repo.git#ref:directory`. Repositories are fetched by this server with git, and again every hour.",
			value: listValue{&c.SkillCollections, "list of collections", collectionRule}},
		{name: "mcp_allow", group: groupAgent, scope: ServerScope,
			help:  "Where remote MCP servers may be besides public addresses: hosts, `host:port` and networks such as `10.0.0.0/8`. `*` allows all, this machine included.",
			value: listValue{&c.MCPAllow, "list of hosts and networks", allowRule}},
		{name: "webhook_allow_private", group: groupAgent, scope: ServerScope,
			help:  "Where endpoints of webhooks may be besides public addresses: hosts, `host:port` and networks such as `10.0.0.0/8`. `*` allows all, this machine included.",
			value: listValue{&c.WebhookAllowPrivate, "list of hosts and networks", allowRule}},
	}
}

func (c *Config) modelKeys() []key {
	return []key{
		{name: "llm_max_attempts", group: groupModel, scope: ServerScope,
			help:  "Attempts of one model call, the first included. A profile may say otherwise, here and for the waits and the time-out.",
			value: numberValue[int]{&c.LLMMaxAttempts, 1, 100}},
		{name: "llm_retry_min", group: groupModel, scope: ServerScope,
			help:  "Wait before the second attempt; it doubles with each further one. A provider's Retry-After wins.",
			value: durationValue{&c.LLMRetryMin, 0, time.Hour}},
		{name: "llm_retry_max", group: groupModel, scope: ServerScope,
			help:  "Longest wait between two attempts, give or take a tenth.",
			value: durationValue{&c.LLMRetryMax, 0, time.Hour}},
		{name: "llm_timeout", group: groupModel, scope: ServerScope,
			help:  "Longest silence of a model endpoint before a call counts as failed.",
			value: durationValue{&c.LLMTimeout, time.Second, 24 * time.Hour}},
		{name: "llm_concurrency", group: groupModel, scope: ServerScope,
			help:  "Calls that may be under way with one key at one endpoint, over all conversations. Further ones wait for their turn. When a provider says that there are too many, all wait for it together and come back one after the other.",
			value: numberValue[int]{&c.LLMConcurrency, 1, 100000}},
		{name: "llm_catalog", group: groupModel, scope: ServerScope,
			help:  "File that corrects and extends the shipped table of context windows, capabilities and prices: YAML or JSON, `models: {provider/model: {context_window, max_output, vision, tools, reasoning, prompt_cache, responses_only, deprecated, price: {input, output, cache_read, cache_write, cache_write_1h, above: [{tokens, ...}]}}}`, prices in USD per million tokens. A key it does not know is an error, with its line.",
			value: textValue{&c.LLMCatalog, "path", fileRule}},
		{name: "llm_ca_file", group: groupModel, scope: ServerScope,
			help:  "PEM file of certificate authorities that model calls trust besides those of the system, such as a company's. `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment are honoured for model calls too, but for loopback addresses.",
			value: textValue{&c.LLMCAFile, "path", fileRule}},
		{name: "auto_titles", group: groupModel, scope: ServerScope,
			help:  "Let a model name conversations after their first message: one short call each, of the title profile or else of the conversation's own model. Without it the message itself is the title, shortened.",
			value: boolValue{&c.AutoTitles}},
		{name: "aws_credentials", group: groupModel, scope: ServerScope,
			help:  "Let Bedrock models without keys of their own use what AWS gives this server: environment, shared files, instance role. Switch it off where users are not to act with the server's identity.",
			value: boolValue{&c.AWSCredentials}},
		{name: "aws_bearer_token", group: groupModel, scope: ServerScope, secret: true, alsoEnv: []string{"AWS_BEARER_TOKEN_BEDROCK"},
			help:       "Bedrock API key for models without keys of their own, where `aws_credentials` is on.",
			defaultDoc: "none",
			value:      secretValue{&c.AWSBearerToken, 1}},
	}
}

func (c *Config) moneyKeys() []key {
	const most = 1_000_000_000_000
	return []key{
		{name: "daily_budget", group: groupMoney, scope: ServerScope,
			help:       "The most that one user's model calls may cost on one day (UTC), in USD. The worst case of a call is set aside before it is made, so that the ceiling is not passed. 0: no ceiling.",
			defaultDoc: "no ceiling",
			value:      dollarValue{&c.DailyBudget, 1_000_000}},
		{name: "unpriced_task_tokens", group: groupMoney, scope: ServerScope,
			help:  "The most tokens that a conversation with all its sub-conversations may use of models without a known price. It holds only where `max_budget_per_task` sets a ceiling that cannot be applied to them. 0: no such ceiling; models without a known price are then refused under a budget.",
			value: numberValue[int64]{&c.UnpricedTaskTokens, 0, most}},
		{name: "unpriced_daily_tokens", group: groupMoney, scope: ServerScope,
			help:  "Likewise, of one user on one day (UTC), where `daily_budget` is set.",
			value: numberValue[int64]{&c.UnpricedDailyTokens, 0, most}},
	}
}

func (c *Config) clientKeys() []key {
	return []key{
		{name: "server", group: groupClient, scope: ClientScope,
			help:       "URL of the server that `parley chat` and `parley doctor` talk to.",
			defaultDoc: "the server that `listen` describes, on this machine",
			value:      textValue{&c.Client.Server, "http(s) URL", baseURLRule}},
		{name: "api_key", group: groupClient, scope: ClientScope, secret: true, flag: "key",
			help:       "API key for that server. A server on this machine needs none if you can read its data directory. Prefer the variable or the file to the flag: other users of a machine can read command lines.",
			defaultDoc: "for a server on this machine: `session_api_key`, else `session-key` in the data directory",
			value:      secretValue{&c.Client.APIKey, 1}},
	}
}

// maxFileBytes bounds the configuration file.
const maxFileBytes = 1 << 20
