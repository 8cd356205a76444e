// Written by scripts/types.mjs from the server's own document. Do not edit.
export interface paths {
    "/agent/{sandbox_id}/api/conversations/{conversation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        get: operations["agent_get_conversation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/conversations/{conversation_id}/events/respond_to_confirmation": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Accept (and go on) or reject (and wait) the actions that need confirmation */
        post: operations["respond_to_confirmation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/conversations/{conversation_id}/interrupt": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop in the middle of a step */
        post: operations["interrupt_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/conversations/{conversation_id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop between two steps */
        post: operations["pause_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/conversations/{conversation_id}/run": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start a run; a finished conversation without a new message succeeds at once */
        post: operations["run_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The API keys that the user made, the oldest first */
        get: operations["list_api_keys"];
        put?: never;
        /** Make an API key, which opens everything that the user's other keys do; its value is in this answer only */
        post: operations["create_api_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete an API key that the user made; from then on it opens nothing */
        delete: operations["delete_api_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The conversations with the given ids in their order, null where there is none; without ids a page of all */
        get: operations["list_app_conversations"];
        put?: never;
        /** Start a conversation in the background; the answer is the task to poll */
        post: operations["start_app_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        /** One conversation */
        get: operations["get_app_conversation"];
        put?: never;
        post?: never;
        /** Delete the conversation, its sub-conversations, and its sandbox if nothing else uses it */
        delete: operations["delete_app_conversation"];
        options?: never;
        head?: never;
        /** Change the members that are present; null clears */
        patch: operations["update_app_conversation"];
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The conversation as a zip: meta.json and event_000001_<id>.json and so on, secrets masked */
        get: operations["download_conversation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file of the conversation's sandbox, empty if there is none or the sandbox does not run */
        get: operations["read_conversation_file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The files below a directory, at most 2000, without those of version control and of builds; none while the sandbox does not run. Beyond the published schema */
        get: operations["list_conversation_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Copy a conversation, up to an event, into a new one, as a rule with its sandbox, beyond the V1 contract */
        post: operations["fork_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/git/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What differs in a directory's repository, and in those directly below it */
        get: operations["get_conversation_git_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/git/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file before and after */
        get: operations["get_conversation_git_diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/send-message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say something in a conversation whose sandbox is running */
        post: operations["send_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/trust": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        /** What wants to run in a conversation and waits for the user's trust, beyond the V1 contract */
        get: operations["get_trust_questions"];
        put?: never;
        /** Answer a question, for this conversation and all others in which the same content asks */
        post: operations["decide_trust"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the conversation's model calls cost, beyond the V1 contract */
        get: operations["get_conversation_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of conversations, newest first unless ordered otherwise */
        get: operations["search_app_conversations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/start-tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The start tasks with the given ids in their order, null where there is none */
        get: operations["get_start_tasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/start-tasks/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of start tasks */
        get: operations["search_start_tasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/models/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of the models that can be chosen, by provider and name */
        get: operations["search_models"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/providers/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of the providers that have models to choose, by name */
        get: operations["search_providers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/conversation/{conversation_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The events with the given ids in their order, null where there is none */
        get: operations["get_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/conversation/{conversation_id}/events/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The number of events of a conversation, 0 for an unknown one */
        get: operations["count_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/conversation/{conversation_id}/events/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of a conversation's log; empty for an unknown conversation */
        get: operations["v1_search_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/conversation/{conversation_id}/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The conversation's events as server-sent events, resumable
         * @description Every stored event is one message whose id is the event's number in the log and whose data is the event. Messages without an id are live only: "delta" (a piece of an answer being written), "state" (the full state, after a run ended), "notice" (trouble that cannot be stored) and "deleted" (the conversation is gone; the stream ends). A comment comes after every 10 s of silence.
         */
        get: operations["stream_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/conversations/{conversation_id}/pending-messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say something before the conversation is READY
         * @description At most 10 messages wait. They are handed over in their order, each exactly once and with a run, when the start is through, also after a restart of the server; to a conversation that is READY at once. What waits for a start that fails is dropped with it, and later messages get 409.
         */
        post: operations["queue_pending_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/git/branches/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The branches of a repository whose names contain the query; all with an empty one */
        get: operations["search_git_branches"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/git/repositories/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The user's repositories at a git provider, or with a query those of the whole service
         * @description The query is a part of the name, owner/part, or an address. Services that cannot sort a list as asked sort its pages, or give it in their own order. Pages may be shorter than the limit.
         */
        get: operations["search_git_repositories"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/mcp/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Connect to an MCP server, list its tools and call one of them if asked to; nothing is stored. Beyond the V1 contract */
        post: operations["test_mcp_server"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandbox-specs/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of sandbox templates, the default first */
        get: operations["search_sandbox_specs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/{sandbox_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a sandbox with everything in it */
        delete: operations["delete_sandbox"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/{sandbox_id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Freeze a sandbox */
        post: operations["pause_sandbox"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/{sandbox_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Thaw a sandbox; poll until RUNNING */
        post: operations["resume_sandbox"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/{sandbox_id}/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the sandbox takes now, with its limits, beyond the V1 contract */
        get: operations["get_sandbox_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of sandboxes, newest first */
        get: operations["search_sandboxes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find words in titles, messages, commands and outputs, the newest first, beyond the V1 contract
         * @description A query is words, all of which must be there, and "phrases"; case does not matter, nothing else has a meaning. Of long texts the first 6 and the last 2 KiB are searched. What an older version stored is found as soon as it is indexed, which begins with the start of the server.
         */
        get: operations["search_texts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Store a secret, in place of one of that name. The mask as value leaves it as it is */
        post: operations["create_secret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/{secret_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name */
                secret_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a secret */
        delete: operations["delete_secret"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/git-providers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Store the tokens of git providers; those that are named are the whole set
         * @description A provider with an empty token keeps the stored one and gets the host. Tokens that are new, or go to another host, are tried first; a wrong one (401) stores nothing. An empty object changes nothing. mcp_config belongs to the settings and is ignored here.
         */
        post: operations["store_git_providers"];
        /** Remove the tokens of all git providers */
        delete: operations["delete_git_providers"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The names of the secrets */
        get: operations["search_secrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The settings; keys are null, whether set or not */
        get: operations["v1_load_settings"];
        put?: never;
        /**
         * Change settings; what is left out stays
         * @description Members replace what is stored, null resets them. Keys that are null or ten asterisks stay, an empty text clears
         *     them. agent_settings_diff and conversation_settings_diff are merged deeply, null resets a member in them too;
         *     mcp_config in it is replaced whole. A key never goes to another endpoint than it was stored for: a change of
         *     llm that would do that is refused (422). secrets_store is merged. Unknown members are ignored, as are those of
         *     the answer that have routes of their own (llm_profiles). The legacy API shows the same settings.
         */
        post: operations["v1_store_settings"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/llm/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The same with the given llm, or else with the model that the settings choose; nothing is stored */
        post: operations["test_llm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The user and the settings
         * @description With expose_secrets the secrets of the settings are in it. That takes two keys: the user's as a bearer token, and that of a running sandbox of this user in X-Session-API-Key.
         */
        get: operations["get_current_user"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/server_info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Versions and what the server can do */
        get: operations["server_info"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Other members (tools, verification, agent_context, ...) are kept without effect yet, except secrets in them, which are not stored. */
        AgentSettingsChange: ({
            agent?: string | null;
            /**
             * @description Parley runs its own agent only
             * @enum {unknown}
             */
            agent_kind?: "openhands" | "llm" | null;
            condenser?: ({
                enabled?: boolean | null;
                /** @description Events */
                max_size?: number | null;
            } & {
                [key: string]: unknown;
            }) | null;
            /** @description Agents may give tasks to sub-agents; null is only where definitions of such agents were brought along */
            enable_sub_agents?: boolean | null;
            /** @description Changes of the LLM object of the agent-server protocol: what profiles hold. Unknown members are refused. A change of the model's place needs its key again, or an empty text for none. */
            llm?: {
                [key: string]: unknown;
            } | null;
            /** @description MCP servers by name, in place of all that are stored: url or command, transport, args, env, cwd, headers, timeout, enabled, auth with the strategy none, bearer, api_key, basic, header or oauth2. A secret that is null or ten asterisks is that of the stored server of that name at the same place; ${NAME} in one is the value of the secret NAME. Description, icon, keep_alive and sse_read_timeout are kept without effect. */
            mcp_config?: {
                [key: string]: unknown;
            } | null;
        } & {
            [key: string]: unknown;
        }) | null;
        AlwaysConfirm: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "AlwaysConfirm";
        };
        APIKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            id: number;
            /**
             * Format: date-time
             * @description Within an hour
             */
            last_used_at: string | null;
            name: string | null;
            /** Format: date-time */
            not_before: string | null;
            org_id: null;
        };
        AppConversation: {
            acp_server: string | null;
            agent_kind: string;
            conversation_url: string | null;
            /** Format: date-time */
            created_at: string;
            created_by_user_id: string | null;
            /** @description null unless the sandbox is running */
            execution_status: components["schemas"]["ExecutionStatus"] | null;
            git_provider: components["schemas"]["ProviderType.v1"] | null;
            /** @description 32 hexadecimal digits */
            id: string;
            launched_agent_profile: components["schemas"]["LaunchedAgentProfile"] | null;
            llm_model: string | null;
            metrics: components["schemas"]["MetricsSnapshot"];
            parent_conversation_id: string | null;
            pr_number: number[];
            public: boolean | null;
            sandbox_id: string;
            sandbox_status: components["schemas"]["SandboxStatus"];
            selected_branch: string | null;
            selected_repository: string | null;
            session_api_key: string | null;
            sub_conversation_ids: string[];
            tags: {
                [key: string]: string;
            };
            title: string;
            trigger: components["schemas"]["ConversationTrigger.v1"] | null;
            /** Format: date-time */
            updated_at: string;
            workspace: components["schemas"]["Workspace"] | null;
        };
        AppConversationPage: {
            items: components["schemas"]["AppConversation"][];
            next_page_id: string | null;
        };
        AppConversationStartRequest: {
            agent_profile_id?: string | null;
            /**
             * @default default
             * @enum {string|null}
             */
            agent_type: "default" | "plan" | null;
            /** Format: uuid */
            conversation_id?: string | null;
            git_provider?: components["schemas"]["ProviderType.v1"] | null;
            initial_message?: components["schemas"]["SendMessageRequest"] | null;
            llm_model?: string | null;
            /** @description Name of an LLM profile to run with in place of the settings' model, beyond the V1 contract; 404 if there is none. Together with llm_model: that model, reached like the profile's. */
            llm_profile?: string | null;
            /** @description Kept with the start task */
            observability_metadata?: {
                [key: string]: components["schemas"]["TraceValue"];
            } | null;
            observability_span_name?: string | null;
            observability_tags?: string[] | null;
            /** Format: uuid */
            parent_conversation_id?: string | null;
            plugins?: components["schemas"]["PluginSpec"][] | null;
            pr_number?: number[] | null;
            processors?: components["schemas"]["Processor"][] | null;
            public?: boolean | null;
            sandbox_id?: string | null;
            sandbox_network?: components["schemas"]["NetworkPolicyRequest"] | null;
            /** @description Template of a new sandbox, beyond the V1 contract; 404 if there is none */
            sandbox_spec_id?: string | null;
            secrets?: {
                [key: string]: string;
            } | null;
            selected_branch?: string | null;
            selected_repository?: string | null;
            suggested_task?: components["schemas"]["SuggestedTask.v1"] | null;
            system_message_suffix?: string | null;
            title?: string | null;
            trigger?: components["schemas"]["ConversationTrigger.v1"] | null;
            workspace?: components["schemas"]["HostWorkspace"] | null;
        };
        AppConversationStartTask: {
            agent_server_url: string | null;
            /** @description Set when READY */
            app_conversation_id: string | null;
            /** Format: date-time */
            created_at: string;
            created_by_user_id: string | null;
            detail: string | null;
            id: string;
            /** @description The request as understood, secrets masked */
            request: Record<string, unknown>;
            sandbox_id: string | null;
            /** @enum {string} */
            status: "WORKING" | "WAITING_FOR_SANDBOX" | "PREPARING_REPOSITORY" | "RUNNING_SETUP_SCRIPT" | "SETTING_UP_GIT_HOOKS" | "SETTING_UP_SKILLS" | "STARTING_CONVERSATION" | "READY" | "ERROR";
            /** Format: date-time */
            updated_at: string;
        };
        AppConversationStartTaskPage: {
            items: components["schemas"]["AppConversationStartTask"][];
            next_page_id: string | null;
        };
        AppConversationUpdateRequest: {
            git_provider?: components["schemas"]["ProviderType.v1"] | null;
            public?: boolean | null;
            selected_branch?: string | null;
            selected_repository?: string | null;
            title?: string | null;
        };
        AppSendMessageRequest: {
            content: components["schemas"]["Content"][];
            /**
             * @default user
             * @constant
             */
            role: "user";
            /** @default true */
            run: boolean;
        };
        AppSendMessageResponse: {
            message: string | null;
            sandbox_status: components["schemas"]["SandboxStatus"];
            success: boolean;
        };
        BranchPage: {
            items: components["schemas"]["GitBranch"][];
            next_page_id: string | null;
        };
        /** @description A tool that the client carries out; the model's call is answered at once */
        ClientTool: {
            annotations?: Record<string, unknown> | null;
            description: string;
            name: string;
            /**
             * @description JSON Schema of an object
             * @default {
             *       "properties": {},
             *       "type": "object"
             *     }
             */
            parameters: Record<string, unknown>;
        };
        ConfirmationPolicy: components["schemas"]["NeverConfirm"] | components["schemas"]["AlwaysConfirm"] | components["schemas"]["ConfirmRisky"];
        ConfirmationResponse: {
            accept: boolean;
            /** @default User rejected the action. */
            reason: string;
        };
        ConfirmRisky: {
            /** @default true */
            confirm_unknown: boolean;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "ConfirmRisky";
            /**
             * @default HIGH
             * @enum {string}
             */
            threshold: "LOW" | "MEDIUM" | "HIGH";
        };
        Content: components["schemas"]["TextContent"] | components["schemas"]["ImageContent"];
        "ConversationInfo.agent": {
            activated_knowledge_skills: string[];
            agent: Record<string, unknown>;
            /** @description Among others mcp_servers that are in trouble, trust_questions, extension_problems and tasks of sub-agents */
            agent_state: Record<string, unknown>;
            available_models: string[];
            /** @description Reasons of hooks by the action's id */
            blocked_actions: {
                [key: string]: string;
            };
            /** @description Reasons of hooks by the message's id */
            blocked_messages: {
                [key: string]: string;
            };
            client_tools: components["schemas"]["ClientTool"][];
            confirmation_policy: components["schemas"]["ConfirmationPolicy"];
            /** Format: date-time */
            created_at: string;
            current_model_id: string | null;
            execution_status: components["schemas"]["ExecutionStatus"];
            forked_from_conversation_id: string | null;
            forked_from_event_id: string | null;
            /** @description Hooks that run, wherever they are from; null in lists and live streams */
            hook_config: components["schemas"]["HookConfig"] | null;
            /** @description A dashed UUID, or the id that a legacy client chose */
            id: string;
            invoked_skills: string[];
            last_user_message_id: string | null;
            launched_agent_profile: Record<string, unknown> | null;
            /** @description The event that the conversation goes on from; null at the start, and in lists */
            leaf_event_id: string | null;
            max_iterations: number;
            /** @description Clients add up stats instead */
            metrics: null;
            parent_conversation_id: string | null;
            /** @description A name for where the conversation is kept; there is nothing to open */
            persistence_dir: string;
            /** @description Names of secrets; values are masked */
            secret_registry: {
                secret_sources: {
                    [key: string]: Record<string, unknown>;
                };
            };
            security_analyzer: components["schemas"]["SecurityAnalyzer"] | null;
            stats: Record<string, unknown>;
            stuck_detection: boolean;
            sub_conversation_ids: string[];
            supports_runtime_model_switch: boolean;
            tags: {
                [key: string]: string;
            };
            title: string | null;
            /** Format: date-time */
            updated_at: string;
            workspace: {
                /** @constant */
                kind: "LocalWorkspace";
                working_dir: string;
            };
        };
        ConversationSettingsChange: ({
            confirmation_mode?: boolean | null;
            max_iterations?: number | null;
            /** @enum {unknown} */
            security_analyzer?: "llm" | "none" | null;
        } & {
            [key: string]: unknown;
        }) | null;
        /** @enum {string} */
        "ConversationTrigger.v1": "resolver" | "gui" | "suggested_task" | "openhands_api" | "slack" | "microagent_management" | "jira" | "jira_dc" | "linear" | "bitbucket" | "automation";
        ConversationUsage: {
            /** @description agent, title, condenser, analyzer */
            by_use: {
                [key: string]: components["schemas"]["Spending"];
            };
            /** @description US dollars, of all of the user's calls of one day */
            daily_budget: number | null;
            /** @description US dollars, of the whole tree of sub-conversations */
            max_budget_per_task: number | null;
            own: components["schemas"]["Spending"];
            with_sub_conversations: components["schemas"]["Spending"];
        };
        EnsembleSecurityAnalyzer: {
            analyzers: components["schemas"]["SecurityAnalyzer"][];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "EnsembleSecurityAnalyzer";
            /** @default false */
            propagate_unknown: boolean;
        };
        Error: {
            /** @description Stable name of the error */
            code?: string;
            detail: string;
            /** @description Finds the error in the server's log */
            error_id?: string;
        };
        "Error.agent": {
            /** @description Stable name of the error */
            code?: string;
            detail: string;
            /** @description Finds the error in the server's log */
            error_id?: string;
            exception?: string;
        };
        /** @description As the agent wrote it, members of unknown kinds included */
        "Event.v1": {
            id: string;
            kind: string;
            /** @enum {string} */
            source: "agent" | "user" | "environment" | "hook";
            /** @description UTC without an offset, microseconds */
            timestamp: string;
        };
        /** @enum {string|null} */
        EventKind: "MessageEvent" | "SystemPromptEvent" | "ActionEvent" | "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation" | "ConversationStateUpdateEvent" | "ConversationErrorEvent" | "ServerErrorEvent" | "PauseEvent" | "InterruptEvent" | "Condensation" | "CondensationRequest" | "CondensationSummaryEvent" | "HookExecutionEvent" | "ACPToolCallEvent" | "LLMCompletionLogEvent" | "TokenEvent" | "StreamingDeltaEvent" | null;
        EventPage: {
            items: components["schemas"]["Event.v1"][];
            /** @description Id of the first event of the next page */
            next_page_id: string | null;
        };
        /** @enum {string} */
        ExecutionStatus: "idle" | "running" | "paused" | "waiting_for_confirmation" | "finished" | "error" | "stuck" | "deleting";
        ExposedUrl: {
            name: string;
            port: number;
            url: string;
        };
        ForkConversationRequest: {
            /**
             * @description Else both use the same one
             * @default true
             */
            copy_sandbox: boolean;
            /** @description The last event that is copied; all if absent */
            from_event_id?: string | null;
            /** @default true */
            reset_metrics: boolean;
            tags?: {
                [key: string]: string;
            } | null;
            title?: string | null;
        };
        FoundText: {
            conversation_id: string;
            /** @description null: the title matches */
            event_id: string | null;
            kind: string | null;
            /** @description What matches in the snippet, in characters (code points) */
            marks: {
                end: number;
                start: number;
            }[];
            /** @description Plain text, one line */
            snippet: string;
            timestamp: string | null;
            title: string;
        };
        FoundTextPage: {
            items: components["schemas"]["FoundText"][];
            next_page_id: string | null;
        };
        GitBranch: {
            commit_sha: string;
            last_push_date: string | null;
            name: string;
            protected: boolean;
        };
        GitProviderToken: {
            host?: string | null;
            token?: string | null;
            user_id?: string | null;
        };
        GitRepository: {
            full_name: string;
            git_provider: components["schemas"]["ProviderType.v1"];
            id: string;
            is_public: boolean;
            link_header: string | null;
            main_branch: string | null;
            /** @enum {string|null} */
            owner_type: "user" | "organization" | null;
            pushed_at: string | null;
            stargazers_count: number | null;
        };
        /** @description Lists of matchers by event: pre_tool_use, post_tool_use, user_prompt_submit, session_start, session_end and stop, or the events' own names; also below hooks. Unknown members are an error. At most 64 KiB. */
        HookConfig: Record<string, unknown>;
        /** @description A directory of the server's machine to work in, beyond the V1 contract. The caller proves that it may write there with a file it made in it. */
        HostWorkspace: {
            host_dir: string;
            /** @description The file's content */
            nonce: string;
            /** @description Name of a file directly in host_dir that begins with .parley-proof- */
            proof: string;
        };
        HTTPValidationError: {
            detail: components["schemas"]["ValidationError"][];
        };
        ImageContent: {
            /** @default false */
            cache_prompt: boolean;
            image_urls: string[];
            /**
             * @default image
             * @constant
             */
            type: "image";
        };
        LaunchedAgentProfile: {
            /** Format: uuid */
            agent_profile_id: string;
            revision: number;
        };
        LLMModel: {
            /** @description Of a hidden model: the visible one that it is an alias of */
            canonical: string | null;
            hidden: boolean;
            /** @description What a user configures is provider/name */
            name: string;
            provider: string | null;
            /** @description Spoken natively, and known to call tools, with its window and prices */
            verified: boolean;
        };
        LLMModelPage: {
            items: components["schemas"]["LLMModel"][];
            next_page_id: string | null;
        };
        LLMSecurityAnalyzer: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "LLMSecurityAnalyzer";
        };
        LLMTest: {
            /** @description US dollars; null where that is not known */
            cost: number | null;
            error: {
                /** @description What to do about it */
                action: string | null;
                /** @description As in a ConversationErrorEvent, or of an error of this API */
                code: string;
                detail: string;
            } | null;
            /** @description 0 if no call was made */
            latency_seconds: number;
            /** @description That answered, or was asked */
            model: string;
            ok: boolean;
            /** @description The answer, shortened */
            text: string;
        };
        MarketplaceRegistration: {
            name?: string;
            source?: string;
        } & {
            [key: string]: unknown;
        };
        MCPTest: {
            /** @description What is wrong and what to do */
            error?: string;
            /** @enum {string} */
            error_kind?: "timeout" | "connection" | "unknown";
            ok: boolean;
            /** @description Of the call, as the server gave it */
            tool_result?: Record<string, unknown>;
            tools?: {
                description?: string;
                input_schema?: Record<string, unknown>;
                name: string;
            }[];
        };
        MCPTestRequest: {
            name: string;
            /** @description Where a server with a command runs */
            sandbox_id?: string | null;
            /** @description As in MCPServerRequest */
            server?: {
                [key: string]: unknown;
            } | null;
            /**
             * @description Seconds
             * @default 30
             */
            timeout: number;
            tool_call?: {
                arguments?: {
                    [key: string]: unknown;
                } | null;
                name: string;
            } | null;
        };
        Message: {
            message: string;
        };
        MetricsSnapshot: {
            /** @description US dollars */
            accumulated_cost: number;
            accumulated_token_usage: components["schemas"]["TokenUsage"];
            max_budget_per_task: number | null;
            model_name: string;
        };
        NameOfSecret: string;
        /** @description What a new sandbox may reach, within its template's policy, beyond the V1 contract */
        NetworkPolicyRequest: {
            /** @description Hosts, *.domain, addresses, networks; each also with :port */
            allow?: string[];
            /** @enum {string} */
            mode: "open" | "allow" | "none";
        };
        NeverConfirm: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "NeverConfirm";
        };
        NewAPIKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            id: number;
            key: string;
            /** Format: date-time */
            last_used_at: string | null;
            name: string | null;
            /** Format: date-time */
            not_before: string | null;
            org_id: null;
        };
        PatternSecurityAnalyzer: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "PatternSecurityAnalyzer";
        };
        PendingMessageRequest: {
            content: components["schemas"]["Content"][];
            /**
             * @default user
             * @constant
             */
            role: "user";
        };
        PendingMessageResponse: {
            /** @description Of the event that it becomes */
            id: string;
            position: number;
            queued: boolean;
        };
        PluginSpec: {
            parameters?: {
                [key: string]: unknown;
            } | null;
            /** @description Branch, tag or commit; only of a git repository */
            ref?: string | null;
            /** @description Directory of the plugin in its repository */
            repo_path?: string | null;
            /** @description github:owner/repo, an https:// address of a git repository, or an absolute path inside the sandbox */
            source: string;
        };
        PolicyRailSecurityAnalyzer: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "PolicyRailSecurityAnalyzer";
        };
        Processor: {
            /** @enum {string} */
            kind: "SetTitleCallbackProcessor" | "LoggingCallbackProcessor" | "GithubV1CallbackProcessor" | "GitlabV1CallbackProcessor" | "BitbucketV1CallbackProcessor" | "SlackV1CallbackProcessor" | "JiraV1CallbackProcessor" | "JiraDcV1CallbackProcessor";
        };
        Provider: {
            name: string;
            /** @description Whether it has a verified model */
            verified: boolean;
        };
        ProviderPage: {
            items: components["schemas"]["Provider"][];
            next_page_id: string | null;
        };
        /** @enum {string} */
        "ProviderType.v1": "github" | "gitlab" | "bitbucket" | "bitbucket_data_center" | "forgejo" | "azure_devops" | "enterprise_sso";
        RepositoryPage: {
            items: components["schemas"]["GitRepository"][];
            next_page_id: string | null;
        };
        /**
         * @description Which running sandbox a new conversation joins: none; the newest; that whose conversations rest the longest; that with the fewest; any. One that is not what the conversation would get (template, image, network), or that has 20 conversations, is never joined. Conversations of a group have directories of their own.
         * @enum {string}
         */
        SandboxGroupingStrategy: "NO_GROUPING" | "GROUP_BY_NEWEST" | "LEAST_RECENTLY_USED" | "FEWEST_CONVERSATIONS" | "ADD_TO_ANY";
        SandboxInfo: {
            /** Format: date-time */
            created_at: string;
            created_by_user_id: string | null;
            exposed_urls: components["schemas"]["ExposedUrl"][] | null;
            id: string;
            sandbox_spec_id: string;
            session_api_key: string | null;
            status: components["schemas"]["SandboxStatus"];
            status_detail: string | null;
        };
        /** @description null is the backend's own bound */
        SandboxLimits: {
            cpus: number | null;
            disk_bytes: number | null;
            inodes: number | null;
            memory_bytes: number | null;
            open_files: number | null;
            processes: number | null;
        };
        SandboxPage: {
            items: components["schemas"]["SandboxInfo"][];
            next_page_id: string | null;
        };
        SandboxSpecInfo: {
            /** @description Beyond the V1 contract */
            backend: string;
            command: string[] | null;
            /** Format: date-time */
            created_at: string;
            id: string;
            /** @description Container image; null: the backend's own files. Beyond the V1 contract */
            image: string | null;
            initial_env: {
                [key: string]: string;
            };
            limits: components["schemas"]["SandboxLimits"];
            /** @description What its sandboxes may reach, beyond the V1 contract */
            network: {
                allow: string[];
                /** @enum {string} */
                mode: "open" | "allow" | "none";
            };
            working_dir: string;
        };
        SandboxSpecPage: {
            items: components["schemas"]["SandboxSpecInfo"][];
            next_page_id: string | null;
        };
        /** @enum {string} */
        SandboxStatus: "STARTING" | "RUNNING" | "PAUSED" | "ERROR" | "MISSING";
        /** @description null is not known */
        SandboxUsage: {
            cpu_seconds: number | null;
            disk_bytes: number | null;
            inodes: number | null;
            limits: components["schemas"]["SandboxLimits"];
            memory_bytes: number | null;
            oom_kills: number | null;
            processes: number | null;
        };
        SecretName: {
            description: string | null;
            name: string;
        };
        /** @description Whoever fails to judge an action counts as HIGH. Pattern lists of the client's own are ignored. */
        SecurityAnalyzer: components["schemas"]["LLMSecurityAnalyzer"] | components["schemas"]["PatternSecurityAnalyzer"] | components["schemas"]["PolicyRailSecurityAnalyzer"] | components["schemas"]["EnsembleSecurityAnalyzer"];
        SendMessageRequest: {
            /** @default [] */
            content: components["schemas"]["Content"][];
            /**
             * @default user
             * @enum {string}
             */
            role: "user" | "system" | "assistant" | "tool";
            /**
             * @description An initial message always runs
             * @default false
             */
            run: boolean;
        };
        ServerInfo: {
            capabilities: string[];
            docs: string;
            /** @description Seconds since anybody did anything */
            idle_time: number;
            parley_version: string;
            redoc?: string;
            resources: Record<string, unknown>;
            sdk_version: string;
            title: string;
            tools_version: string;
            /** @description Seconds */
            uptime: number;
            usable_tools: string[];
            /** @description Version of the agent-server protocol that is spoken */
            version: string;
            workspace_version: string;
        };
        "Settings.v1": {
            /** @description The agent profile that clients offer first; a start names its profile itself */
            active_agent_profile_id: string | null;
            /** @description Of the agent profile; ignored in requests */
            active_agent_profile_revision: number | null;
            agent_settings: {
                agent: string;
                agent_kind: string;
                condenser: {
                    enabled: boolean;
                    max_size: number;
                };
                /** @description Only there if it was chosen */
                enable_sub_agents?: boolean;
                /** @description The model that the settings choose, as the agent-server protocol's LLM object; without one model is empty */
                llm: {
                    api_key: null;
                    base_url: string | null;
                    model: string;
                };
                /** @description MCP servers by name; ten asterisks are a stored secret */
                mcp_config: {
                    [key: string]: Record<string, unknown>;
                };
                schema_version: number;
            };
            conversation_settings: {
                confirmation_mode: boolean;
                max_iterations: number;
                schema_version: number;
                security_analyzer: string | null;
            };
            /** @description Template of new sandboxes; one that there is not is ignored */
            default_sandbox_spec_id: string | null;
            /** @description Names of skills that no conversation gets */
            disabled_skills: string[] | null;
            email: string | null;
            email_verified: boolean | null;
            enable_proactive_conversation_starters: boolean;
            enable_sound_notifications: boolean;
            /** @description Repositories come with their whole history; else with the newest commit */
            git_full_clone: boolean;
            git_user_email: string | null;
            git_user_name: string | null;
            /** @description Always empty */
            inherited_marketplaces: unknown[];
            language: string | null;
            llm_api_key_set: boolean;
            llm_profiles: {
                active: string | null;
                /** @description LLM objects by name, api_key null */
                profiles: {
                    [key: string]: Record<string, unknown>;
                };
            };
            /** @description US dollars, of a conversation with its sub-conversations */
            max_budget_per_task: number | null;
            /** @description Hosts by provider; those that are there are configured */
            provider_tokens_set: {
                [key: string]: string | null;
            };
            /** @description Kept; without effect yet */
            registered_marketplaces: components["schemas"]["MarketplaceRegistration"][];
            remote_runtime_resource_factor: number | null;
            sandbox_api_key: null;
            sandbox_base_container_image: string | null;
            sandbox_grouping_strategy: components["schemas"]["SandboxGroupingStrategy"];
            sandbox_runtime_container_image: string | null;
            search_api_key: null;
            search_api_key_set: boolean;
            /** @description Never shown */
            secrets_store: Record<string, unknown>;
            /** @description The LLM profile that titles are made with; null is the conversation's own model */
            title_llm_profile: string | null;
            user_consents_to_analytics: boolean | null;
            /** @description Kept; without effect yet */
            user_version: number | null;
            v1_enabled: boolean;
        };
        SettingsChange: {
            /** @description The agent profile that clients offer first; a start names its profile itself */
            active_agent_profile_id?: string | null;
            /** @description Of the agent profile; ignored in requests */
            active_agent_profile_revision?: number | null;
            agent_settings_diff?: components["schemas"]["AgentSettingsChange"];
            conversation_settings_diff?: components["schemas"]["ConversationSettingsChange"];
            /** @description Template of new sandboxes; one that there is not is ignored */
            default_sandbox_spec_id?: string | null;
            /** @description Names of skills that no conversation gets */
            disabled_skills?: string[] | null;
            email?: string | null;
            email_verified?: boolean | null;
            enable_proactive_conversation_starters?: boolean | null;
            enable_sound_notifications?: boolean | null;
            /** @description Repositories come with their whole history; else with the newest commit */
            git_full_clone?: boolean | null;
            git_user_email?: string | null;
            git_user_name?: string | null;
            language?: string | null;
            /** @description US dollars, of a conversation with its sub-conversations */
            max_budget_per_task?: number | null;
            /** @description Kept; without effect yet */
            registered_marketplaces?: components["schemas"]["MarketplaceRegistration"][] | null;
            remote_runtime_resource_factor?: number | null;
            sandbox_api_key?: string | null;
            sandbox_base_container_image?: string | null;
            sandbox_grouping_strategy?: components["schemas"]["SandboxGroupingStrategy"] | null;
            sandbox_runtime_container_image?: string | null;
            search_api_key?: string | null;
            secrets_store?: ({
                custom_secrets?: {
                    [key: string]: unknown;
                } | null;
                provider_tokens?: {
                    [key: string]: unknown;
                } | null;
            } & {
                [key: string]: unknown;
            }) | null;
            /** @description The LLM profile that titles are made with; null is the conversation's own model */
            title_llm_profile?: string | null;
            user_consents_to_analytics?: boolean | null;
            /** @description Kept; without effect yet */
            user_version?: number | null;
            v1_enabled?: boolean | null;
        } & {
            [key: string]: unknown;
        };
        SettingsErrorText: {
            code?: string;
            detail?: string;
            error: string;
            error_id?: string;
        };
        SettingsInvalid: {
            detail: components["schemas"]["ValidationError"][];
            error: string;
        };
        SettingsStored: {
            message: string;
        };
        Spending: {
            cache_read_tokens: number;
            cache_write_tokens: number;
            calls: number;
            /** @description Reasoning included */
            completion_tokens: number;
            /** @description US dollars */
            cost: number;
            /** @description Those of the cache included */
            prompt_tokens: number;
            reasoning_tokens: number;
            /** @description US dollars that may have been charged on top; they count against ceilings */
            uncertain_cost: number;
        };
        StoreGitProviders: {
            mcp_config?: {
                [key: string]: unknown;
            } | null;
            provider_tokens?: {
                azure_devops?: components["schemas"]["GitProviderToken"];
                bitbucket?: components["schemas"]["GitProviderToken"];
                bitbucket_data_center?: components["schemas"]["GitProviderToken"];
                enterprise_sso?: components["schemas"]["GitProviderToken"];
                forgejo?: components["schemas"]["GitProviderToken"];
                github?: components["schemas"]["GitProviderToken"];
                gitlab?: components["schemas"]["GitProviderToken"];
            };
        };
        /** @description The LLM object of the agent-server protocol. Unknown members are refused. A secret sent as ten asterisks is the stored one, as long as the endpoint is the same. */
        StrictLLM: Record<string, unknown> | null;
        Success: {
            success: boolean;
        };
        "SuggestedTask.v1": {
            git_provider: components["schemas"]["ProviderType.v1"];
            issue_number: number;
            repo: string;
            /** @enum {string} */
            task_type: "MERGE_CONFLICTS" | "FAILING_CHECKS" | "UNRESOLVED_COMMENTS" | "OPEN_ISSUE" | "OPEN_PR";
            title: string;
        };
        TestLLMRequest: {
            llm?: components["schemas"]["StrictLLM"];
        };
        TextContent: {
            /** @default false */
            cache_prompt: boolean;
            text: string;
            /**
             * @default text
             * @constant
             */
            type: "text";
        };
        TokenUsage: {
            cache_read_tokens?: number;
            cache_write_tokens?: number;
            completion_tokens?: number;
            context_window?: number;
            model?: string;
            per_turn_token?: number;
            prompt_tokens?: number;
            reasoning_tokens?: number;
            response_id?: string;
        };
        /** @description A scalar or a list of scalars of one type */
        TraceValue: string | boolean | number | string[] | boolean[] | number[];
        TrustAnswer: {
            /** @description Of the question that is answered */
            hash: string;
            subject: string;
            trusted: boolean;
        };
        TrustQuestions: {
            questions: {
                /** @description Of the content that would run */
                hash: string;
                /** @description What would run, for people */
                runs: string[];
                /** @description What asks: repository https://..., plugin ... */
                subject: string;
            }[];
        };
        /** @description The members of Settings, and these */
        UserInfo: {
            /** @description The agent profile that clients offer first; a start names its profile itself */
            active_agent_profile_id?: string | null;
            /** @description Of the agent profile; ignored in requests */
            active_agent_profile_revision?: number | null;
            agent_settings: {
                agent: string;
                agent_kind: string;
                condenser: {
                    enabled: boolean;
                    max_size: number;
                };
                /** @description Only there if it was chosen */
                enable_sub_agents?: boolean;
                /** @description The model that the settings choose, as the agent-server protocol's LLM object; without one model is empty */
                llm: {
                    api_key: string | null;
                    base_url: string | null;
                    model: string;
                };
                /** @description MCP servers by name; ten asterisks are a stored secret */
                mcp_config: {
                    [key: string]: Record<string, unknown>;
                };
                schema_version: number;
            };
            conversation_settings: {
                confirmation_mode: boolean;
                max_iterations: number;
                schema_version: number;
                security_analyzer: string | null;
            };
            /** @description Template of new sandboxes; one that there is not is ignored */
            default_sandbox_spec_id?: string | null;
            /** @description Names of skills that no conversation gets */
            disabled_skills?: string[] | null;
            email?: string | null;
            email_verified?: boolean | null;
            enable_proactive_conversation_starters?: boolean;
            enable_sound_notifications?: boolean;
            /** @description Repositories come with their whole history; else with the newest commit */
            git_full_clone?: boolean;
            git_user_email?: string | null;
            git_user_name?: string | null;
            id: string;
            /** @description Always empty */
            inherited_marketplaces?: unknown[];
            language?: string | null;
            llm_api_key: string | null;
            llm_api_key_set: boolean;
            llm_base_url: string | null;
            llm_model: string | null;
            llm_profiles: {
                active: string | null;
                /** @description LLM objects by name, api_key null */
                profiles: {
                    [key: string]: Record<string, unknown>;
                };
            };
            /** @description US dollars, of a conversation with its sub-conversations */
            max_budget_per_task?: number | null;
            mcp_config: Record<string, unknown>;
            org_id: null;
            org_name: null;
            permissions: null;
            /** @description Hosts by provider; those that are there are configured */
            provider_tokens_set?: {
                [key: string]: string | null;
            };
            /** @description Kept; without effect yet */
            registered_marketplaces?: components["schemas"]["MarketplaceRegistration"][];
            remote_runtime_resource_factor?: number | null;
            role: null;
            sandbox_api_key?: string | null;
            sandbox_base_container_image?: string | null;
            sandbox_grouping_strategy?: components["schemas"]["SandboxGroupingStrategy"];
            sandbox_runtime_container_image?: string | null;
            search_api_key?: string | null;
            search_api_key_set?: boolean;
            /** @description Never shown */
            secrets_store?: Record<string, unknown>;
            /** @description The LLM profile that titles are made with; null is the conversation's own model */
            title_llm_profile?: string | null;
            user_consents_to_analytics?: boolean | null;
            /** @description Kept; without effect yet */
            user_version?: number | null;
            v1_enabled?: boolean;
        };
        ValidationError: {
            ctx?: Record<string, unknown>;
            input: unknown;
            loc: (string | number)[];
            msg: string;
            type: string;
        };
        Workspace: {
            working_dir: string;
        };
    };
    responses: {
        /** @description An error */
        ErrorAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description An error */
        "ErrorAnswer.agent": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error.agent"];
            };
        };
        /** @description A text where there is no token of the provider or it is not taken, else no valid key */
        GitUnauthorizedAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": string | components["schemas"]["Error"];
            };
        };
        /** @description The request is not valid */
        InvalidAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HTTPValidationError"];
            };
        };
        /** @description The error's text */
        SettingsErrorAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["SettingsErrorText"];
            };
        };
        /** @description Whether it was done */
        "SuccessAnswer.agent": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Success"];
            };
        };
    };
    parameters: {
        ConversationIdParameter: string;
        /** @description A UUID in any spelling, or an id that a legacy client chose */
        "ConversationIdParameter.agent": string;
        ConversationOrderParameter: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" | "TITLE" | "TITLE_DESC";
        CreatedFromParameter: string | null;
        CreatedToParameter: string | null;
        /** @description Without an offset: the events' own clock */
        EventFromParameter: string | null;
        EventKindParameter: components["schemas"]["EventKind"];
        EventOrderParameter: "TIMESTAMP" | "TIMESTAMP_DESC";
        EventToParameter: string | null;
        GitLimitParameter: number;
        GitProviderParameter: components["schemas"]["ProviderType.v1"];
        /** @description The same request with the same key, or with the same conversation_id, is carried out once, as long as the conversation is there: the answer is its start task. Another request with it is a 409 */
        IdempotencyKeyParameter: string;
        IncludeSubsParameter: boolean;
        LimitParameter: number;
        /** @description next_page_id of the page before; an unknown one starts at the beginning */
        PageIdParameter: string | null;
        SandboxEqParameter: string | null;
        SandboxIdParameter: string;
        ShortLimitParameter: number;
        /** @description Literal, case-insensitive */
        TitleContainsParameter: string | null;
        UpdatedFromParameter: string | null;
        UpdatedToParameter: string | null;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    agent_get_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationInfo.agent"];
                };
            };
            404: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    respond_to_confirmation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConfirmationResponse"];
            };
        };
        responses: {
            200: components["responses"]["SuccessAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            409: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    interrupt_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["SuccessAnswer.agent"];
            400: components["responses"]["ErrorAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    pause_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["SuccessAnswer.agent"];
            400: components["responses"]["ErrorAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    run_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A UUID in any spelling, or an id that a legacy client chose */
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["SuccessAnswer.agent"];
            400: components["responses"]["ErrorAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            409: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    list_api_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["APIKey"][];
                };
            };
        };
    };
    create_api_key: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** Format: date-time */
                    expires_at?: string | null;
                    name?: string | null;
                    /** Format: date-time */
                    not_before?: string | null;
                    /**
                     * Format: uuid
                     * @description There are no organisations
                     */
                    org_id?: string | null;
                };
            };
        };
        responses: {
            /** @description The key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewAPIKey"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    delete_api_key: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    list_app_conversations: {
        parameters: {
            query?: {
                created_at__gte?: components["parameters"]["CreatedFromParameter"];
                created_at__lt?: components["parameters"]["CreatedToParameter"];
                ids?: string[];
                include_sub_conversations?: components["parameters"]["IncludeSubsParameter"];
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                sandbox_id__eq?: components["parameters"]["SandboxEqParameter"];
                sort_order?: components["parameters"]["ConversationOrderParameter"];
                /** @description Literal, case-insensitive */
                title__contains?: components["parameters"]["TitleContainsParameter"];
                updated_at__gte?: components["parameters"]["UpdatedFromParameter"];
                updated_at__lt?: components["parameters"]["UpdatedToParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A list with holes for ids, a page without */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": (components["schemas"]["AppConversation"] | null)[] | components["schemas"]["AppConversationPage"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    start_app_conversation: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same request with the same key, or with the same conversation_id, is carried out once, as long as the conversation is there: the answer is its start task. Another request with it is a 409 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKeyParameter"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AppConversationStartRequest"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversationStartTask"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    get_app_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversation"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
        };
    };
    delete_app_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
        };
    };
    update_app_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AppConversationUpdateRequest"];
            };
        };
        responses: {
            /** @description The conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversation"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    download_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The archive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/zip": string;
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
        };
    };
    read_conversation_file: {
        parameters: {
            query?: {
                file_path?: string;
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text, plain to who prefers that */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                    "text/plain": string;
                };
            };
            400: components["responses"]["ErrorAnswer"];
            403: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            413: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    list_conversation_files: {
        parameters: {
            query?: {
                /** @description Without it the working directory */
                path?: string | null;
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Paths relative to the directory, sorted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string[];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    fork_conversation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkConversationRequest"] | null;
            };
        };
        responses: {
            /** @description The new conversation */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversation"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            410: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_conversation_git_changes: {
        parameters: {
            query: {
                path: string;
                ref?: string | null;
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What differs, none without a repository */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Relative to the directory that was asked for */
                        path: string;
                        /** @enum {string} */
                        status: "MOVED" | "ADDED" | "DELETED" | "UPDATED";
                    }[];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_conversation_git_diff: {
        parameters: {
            query: {
                path: string;
                ref?: string | null;
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Both sides, null for what is no text */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        modified: string | null;
                        original: string | null;
                    };
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            413: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    send_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AppSendMessageRequest"];
            };
        };
        responses: {
            /** @description Stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppSendMessageResponse"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            410: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            503: components["responses"]["ErrorAnswer"];
        };
    };
    get_trust_questions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The questions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrustQuestions"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
        };
    };
    decide_trust: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TrustAnswer"];
            };
        };
        responses: {
            /** @description Stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            /** @description No such conversation or question */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The content is another one by now */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_conversation_usage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The spending */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationUsage"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
        };
    };
    search_app_conversations: {
        parameters: {
            query?: {
                created_at__gte?: components["parameters"]["CreatedFromParameter"];
                created_at__lt?: components["parameters"]["CreatedToParameter"];
                include_sub_conversations?: components["parameters"]["IncludeSubsParameter"];
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                sandbox_id__eq?: components["parameters"]["SandboxEqParameter"];
                sort_order?: components["parameters"]["ConversationOrderParameter"];
                /** @description Literal, case-insensitive */
                title__contains?: components["parameters"]["TitleContainsParameter"];
                updated_at__gte?: components["parameters"]["UpdatedFromParameter"];
                updated_at__lt?: components["parameters"]["UpdatedToParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversationPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_start_tasks: {
        parameters: {
            query: {
                ids: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A list with holes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": (components["schemas"]["AppConversationStartTask"] | null)[];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    search_start_tasks: {
        parameters: {
            query?: {
                conversation_id__eq?: string | null;
                created_at__gte?: components["parameters"]["CreatedFromParameter"];
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                sort_order?: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppConversationStartTaskPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    search_models: {
        parameters: {
            query?: {
                limit?: components["parameters"]["ShortLimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                provider__eq?: string | null;
                /** @description Part of provider/name, in any case */
                query?: string | null;
                verified__eq?: boolean | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LLMModelPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    search_providers: {
        parameters: {
            query?: {
                limit?: components["parameters"]["ShortLimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                /** @description Part of the name, in any case */
                query?: string | null;
                verified__eq?: boolean | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_events: {
        parameters: {
            query: {
                id: string[];
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A list with holes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": (components["schemas"]["Event.v1"] | null)[];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    count_events: {
        parameters: {
            query?: {
                kind__eq?: components["parameters"]["EventKindParameter"];
                /** @description Without an offset: the events' own clock */
                timestamp__gte?: components["parameters"]["EventFromParameter"];
                timestamp__lt?: components["parameters"]["EventToParameter"];
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The number */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": number;
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    v1_search_events: {
        parameters: {
            query?: {
                kind__eq?: components["parameters"]["EventKindParameter"];
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                sort_order?: components["parameters"]["EventOrderParameter"];
                /** @description Without an offset: the events' own clock */
                timestamp__gte?: components["parameters"]["EventFromParameter"];
                timestamp__lt?: components["parameters"]["EventToParameter"];
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    stream_events: {
        parameters: {
            query?: {
                /** @description Number of the last event known; -1 for none */
                after_seq?: number;
            };
            header?: {
                /** @description Wins over after_seq */
                "Last-Event-ID"?: string;
            };
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            429: components["responses"]["ErrorAnswer"];
            503: components["responses"]["ErrorAnswer"];
        };
    };
    queue_pending_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the conversation or of its start task, also as task-<id> */
                conversation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PendingMessageRequest"];
            };
        };
        responses: {
            /** @description Stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PendingMessageResponse"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            429: components["responses"]["ErrorAnswer"];
        };
    };
    search_git_branches: {
        parameters: {
            query: {
                limit?: components["parameters"]["GitLimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                provider: components["parameters"]["GitProviderParameter"];
                query: string;
                /** @description owner/name */
                repository: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BranchPage"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            401: components["responses"]["GitUnauthorizedAnswer"];
            403: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            429: components["responses"]["ErrorAnswer"];
            501: components["responses"]["ErrorAnswer"];
            503: components["responses"]["ErrorAnswer"];
        };
    };
    search_git_repositories: {
        parameters: {
            query: {
                /** @description One of the installations */
                installation_id?: string | null;
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                provider: components["parameters"]["GitProviderParameter"];
                query?: string | null;
                sort_order?: "stars-desc" | "stars-asc" | "forks-desc" | "forks-asc" | "updated-desc" | "updated-asc" | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RepositoryPage"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            401: components["responses"]["GitUnauthorizedAnswer"];
            403: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            429: components["responses"]["ErrorAnswer"];
            501: components["responses"]["ErrorAnswer"];
            503: components["responses"]["ErrorAnswer"];
        };
    };
    test_mcp_server: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MCPTestRequest"];
            };
        };
        responses: {
            /** @description How it went, failures included */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MCPTest"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    search_sandbox_specs: {
        parameters: {
            query?: {
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxSpecPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    delete_sandbox: {
        parameters: {
            query?: {
                /** @description Wins over the path */
                sandbox_id?: string;
            };
            header?: never;
            path: {
                sandbox_id: components["parameters"]["SandboxIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
        };
    };
    pause_sandbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: components["parameters"]["SandboxIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Paused */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
        };
    };
    resume_sandbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: components["parameters"]["SandboxIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Resuming */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
        };
    };
    get_sandbox_usage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: components["parameters"]["SandboxIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The usage */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxUsage"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            410: components["responses"]["ErrorAnswer"];
        };
    };
    search_sandboxes: {
        parameters: {
            query?: {
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    search_texts: {
        parameters: {
            query: {
                conversation_id__eq?: string | null;
                limit?: components["parameters"]["LimitParameter"];
                /** @description next_page_id of the page before; an unknown one starts at the beginning */
                page_id?: components["parameters"]["PageIdParameter"];
                query: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FoundTextPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    create_secret: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    description?: string | null;
                    name: components["schemas"]["NameOfSecret"];
                    /**
                     * Format: password
                     * @description At most 64 KiB
                     */
                    value: string;
                };
            };
        };
        responses: {
            /** @description Stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            409: components["responses"]["SettingsErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    delete_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name */
                secret_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            404: components["responses"]["SettingsErrorAnswer"];
        };
    };
    store_git_providers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StoreGitProviders"];
            };
        };
        responses: {
            /** @description Stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsStored"];
                };
            };
            400: components["responses"]["SettingsErrorAnswer"];
            401: components["responses"]["SettingsErrorAnswer"];
            403: components["responses"]["SettingsErrorAnswer"];
            404: components["responses"]["SettingsErrorAnswer"];
            /** @description The request is not valid */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsInvalid"];
                };
            };
            429: components["responses"]["SettingsErrorAnswer"];
            501: components["responses"]["SettingsErrorAnswer"];
            503: components["responses"]["SettingsErrorAnswer"];
        };
    };
    delete_git_providers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsStored"];
                };
            };
        };
    };
    search_secrets: {
        parameters: {
            query?: {
                limit?: number;
                /** @description Literal, case-insensitive */
                name__contains?: string | null;
                page_id?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of names */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["SecretName"][];
                        next_page_id: string | null;
                    };
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    v1_load_settings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Settings.v1"];
                };
            };
            401: components["responses"]["SettingsErrorAnswer"];
            404: components["responses"]["SettingsErrorAnswer"];
        };
    };
    v1_store_settings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SettingsChange"];
            };
        };
        responses: {
            /** @description Stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsStored"];
                };
            };
            401: components["responses"]["SettingsErrorAnswer"];
            413: components["responses"]["SettingsErrorAnswer"];
            /** @description The request is not valid */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsInvalid"];
                };
            };
        };
    };
    test_llm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TestLLMRequest"] | null;
            };
        };
        responses: {
            /** @description How it went, failures included */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LLMTest"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
        };
    };
    get_current_user: {
        parameters: {
            query?: {
                expose_secrets?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The user */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserInfo"];
                };
            };
            403: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    server_info: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description About the server */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerInfo"];
                };
            };
        };
    };
}
