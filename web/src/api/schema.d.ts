// Written by scripts/types.mjs from the server's own document. Do not edit.
export interface paths {
    "/agent/{sandbox_id}/api/conversations/{conversation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
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
        post: operations["run_conversation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/file/download": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        get: operations["download_file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/{sandbox_id}/api/file/upload": {
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
        post: operations["upload_file"];
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
        get: operations["list_api_keys"];
        put?: never;
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
        delete: operations["delete_api_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["load_settings"];
        put?: never;
        post: operations["store_settings"];
        delete?: never;
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
        get: operations["list_app_conversations"];
        put?: never;
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
        get: operations["get_app_conversation"];
        put?: never;
        post?: never;
        delete: operations["delete_app_conversation"];
        options?: never;
        head?: never;
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
        get: operations["get_conversation_git_diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/app-conversations/{conversation_id}/network": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["get_conversation_network"];
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
        get: operations["get_trust_questions"];
        put?: never;
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
        get: operations["search_git_repositories"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/git/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["test_git_provider"];
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
        get: operations["search_sandbox_specs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["get_sandboxes"];
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
        post: operations["pause_sandbox"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sandboxes/{sandbox_id}/ports/{port}/ticket": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["make_preview_ticket"];
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
                secret_id: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
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
        post: operations["store_git_providers"];
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
        get: operations["v1_load_settings"];
        put?: never;
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
        post: operations["test_llm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/profiles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_profiles"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/profiles/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        get: operations["get_profile"];
        put?: never;
        post: operations["save_profile"];
        delete: operations["delete_profile"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/profiles/{name}/activate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["activate_profile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/profiles/{name}/rename": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["rename_profile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/settings/profiles/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["test_profile"];
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
        get: operations["get_current_user"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhook-endpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["create_webhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhook-endpoints/{endpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["parameters"]["EndpointIdParameter"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["delete_webhook"];
        options?: never;
        head?: never;
        patch: operations["update_webhook"];
        trace?: never;
    };
    "/api/v1/webhook-endpoints/{endpoint_id}/deliveries/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["search_webhook_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhook-endpoints/{endpoint_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["test_webhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhook-endpoints/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["search_webhooks"];
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
        AgentSettingsChange: {
            agent?: string | null;
            /** @enum {unknown} */
            agent_kind?: "openhands" | "llm" | null;
            condenser?: ({
                enabled?: boolean | null;
                max_size?: number | null;
            } & {
                [key: string]: unknown;
            }) | null;
            enable_sub_agents?: boolean | null;
            llm?: {
                [key: string]: unknown;
            } | null;
            mcp_config?: {
                [key: string]: unknown;
            } | null;
        } & {
            [key: string]: unknown;
        };
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
            /** Format: date-time */
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
            execution_status: components["schemas"]["ExecutionStatus"] | null;
            git_provider: components["schemas"]["ProviderType.v1"] | null;
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
            llm_profile?: string | null;
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
            app_conversation_id: string | null;
            /** Format: date-time */
            created_at: string;
            created_by_user_id: string | null;
            detail: string | null;
            id: string;
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
        "BranchPage.v1": {
            items: components["schemas"]["GitBranch"][];
            next_page_id: string | null;
        };
        ClientTool: {
            annotations?: Record<string, unknown> | null;
            description: string;
            name: string;
            /**
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
        Connection: {
            address: string | null;
            bytes_received: number;
            bytes_sent: number;
            duration_ms: number;
            host: string | null;
            id: string;
            open: boolean;
            port: number | null;
            /** @enum {string} */
            protocol: "tcp" | "udp" | "dns";
            reason: string | null;
            /** Format: date-time */
            time: string;
            /** @enum {string} */
            verdict: "allowed" | "refused" | "failed";
        };
        ConnectionPage: {
            items: components["schemas"]["Connection"][];
            next_page_id: string | null;
        };
        Content: components["schemas"]["TextContent"] | components["schemas"]["ImageContent"];
        "ConversationInfo.agent": {
            activated_knowledge_skills: string[];
            agent: Record<string, unknown>;
            agent_state: Record<string, unknown>;
            available_models: string[];
            blocked_actions: {
                [key: string]: string;
            };
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
            hook_config: components["schemas"]["HookConfig"] | null;
            id: string;
            invoked_skills: string[];
            last_user_message_id: string | null;
            launched_agent_profile: Record<string, unknown> | null;
            leaf_event_id: string | null;
            max_iterations: number;
            metrics: null;
            parent_conversation_id: string | null;
            persistence_dir: string;
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
        ConversationSettingsChange: {
            confirmation_mode?: boolean | null;
            max_iterations?: number | null;
            /** @enum {unknown} */
            security_analyzer?: "llm" | "none" | null;
        } & {
            [key: string]: unknown;
        };
        /** @enum {string} */
        "ConversationTrigger.v1": "resolver" | "gui" | "suggested_task" | "openhands_api" | "slack" | "microagent_management" | "jira" | "jira_dc" | "linear" | "bitbucket" | "automation";
        ConversationUsage: {
            by_use: {
                [key: string]: components["schemas"]["Spending"];
            };
            daily_budget: number | null;
            max_budget_per_task: number | null;
            own: components["schemas"]["Spending"];
            with_sub_conversations: components["schemas"]["Spending"];
        };
        CreatedWebhook: {
            id: string;
            secret: string;
            url: string;
        };
        CreateWebhookRequest: {
            /** @default true */
            active: boolean;
            conversation_ids?: string[] | null;
            /** @default  */
            description: string;
            kinds?: string[] | null;
            secret?: string | null;
            /** @default false */
            status_only: boolean;
            tags?: {
                [key: string]: string;
            } | null;
            url: string;
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
            code?: string;
            detail: string;
            error_id?: string;
        };
        "Error.agent": {
            code?: string;
            detail: string;
            error_id?: string;
            exception?: string;
        };
        ErrorText: {
            error: string;
        };
        "Event.v1": {
            id: string;
            kind: string;
            /** @enum {string} */
            source: "agent" | "user" | "environment" | "hook";
            timestamp: string;
        } & {
            [key: string]: unknown;
        };
        /** @enum {string|null} */
        EventKind: "MessageEvent" | "SystemPromptEvent" | "ActionEvent" | "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation" | "ConversationStateUpdateEvent" | "ConversationErrorEvent" | "ServerErrorEvent" | "PauseEvent" | "InterruptEvent" | "Condensation" | "CondensationRequest" | "CondensationSummaryEvent" | "HookExecutionEvent" | "ACPToolCallEvent" | "LLMCompletionLogEvent" | "TokenEvent" | "StreamingDeltaEvent" | null;
        EventPage: {
            items: components["schemas"]["Event.v1"][];
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
            /** @default true */
            copy_sandbox: boolean;
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
            event_id: string | null;
            kind: string | null;
            marks: {
                end: number;
                start: number;
            }[];
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
        GitTest: {
            error: {
                action: string | null;
                code: string;
                detail: string;
            } | null;
            host: string | null;
            latency_seconds: number;
            login: string | null;
            missing_scopes: string[];
            ok: boolean;
            provider: components["schemas"]["ProviderType.v1"];
            scopes: string[] | null;
        };
        GitTestRequest: {
            host?: string | null;
            provider: components["schemas"]["ProviderType.v1"];
            token?: string | null;
        };
        HookConfig: Record<string, unknown>;
        HostWorkspace: {
            host_dir: string;
            nonce: string;
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
            canonical: string | null;
            hidden: boolean;
            name: string;
            provider: string | null;
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
            cost: number | null;
            error: {
                action: string | null;
                code: string;
                detail: string;
            } | null;
            latency_seconds: number;
            model: string;
            ok: boolean;
            text: string;
        };
        MarketplaceRegistration: {
            name?: string;
            source?: string;
        } & {
            [key: string]: unknown;
        };
        MCPConfig: {
            shttp_servers?: unknown[];
            sse_servers?: unknown[];
            stdio_servers?: unknown[];
        };
        MCPTest: {
            error?: string;
            /** @enum {string} */
            error_kind?: "timeout" | "connection" | "unknown";
            ok: boolean;
            tool_result?: Record<string, unknown>;
            tools?: {
                description?: string;
                input_schema?: Record<string, unknown>;
                name: string;
            }[];
        };
        MCPTestRequest: {
            name: string;
            sandbox_id?: string | null;
            server?: {
                [key: string]: unknown;
            } | null;
            /** @default 30 */
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
            accumulated_cost: number;
            accumulated_token_usage: components["schemas"]["TokenUsage"];
            max_budget_per_task: number | null;
            model_name: string;
        };
        NameOfSecret: string;
        NetworkPolicyRequest: {
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
            id: string;
            position: number;
            queued: boolean;
        };
        PluginSpec: {
            parameters?: {
                [key: string]: unknown;
            } | null;
            ref?: string | null;
            repo_path?: string | null;
            source: string;
        };
        PolicyRailSecurityAnalyzer: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "PolicyRailSecurityAnalyzer";
        };
        PreviewTicket: {
            /** Format: date-time */
            expires_at: string;
            ticket: string;
            url: string;
        };
        Processor: {
            /** @enum {string} */
            kind: "SetTitleCallbackProcessor" | "LoggingCallbackProcessor" | "GithubV1CallbackProcessor" | "GitlabV1CallbackProcessor" | "BitbucketV1CallbackProcessor" | "SlackV1CallbackProcessor" | "JiraV1CallbackProcessor" | "JiraDcV1CallbackProcessor";
        };
        ProfileActivation: {
            message: string;
            model: string | null;
            name: string;
        };
        ProfileDetail: {
            api_key_set: boolean;
            config: {
                api_key: null;
                base_url: string | null;
                model: string;
            };
            name: string;
        };
        ProfileInfo: {
            api_key_set: boolean;
            base_url: string | null;
            model: string | null;
            name: string;
        };
        ProfileList: {
            active_profile: string | null;
            profiles: components["schemas"]["ProfileInfo"][];
        };
        ProfileMutation: {
            message: string;
            name: string;
        };
        Provider: {
            name: string;
            verified: boolean;
        };
        ProviderPage: {
            items: components["schemas"]["Provider"][];
            next_page_id: string | null;
        };
        /** @enum {string} */
        "ProviderType.v1": "github" | "gitlab" | "bitbucket" | "bitbucket_data_center" | "forgejo" | "azure_devops" | "enterprise_sso";
        RenameProfileRequest: {
            new_name: string;
        };
        RepositoryPage: {
            items: components["schemas"]["GitRepository"][];
            next_page_id: string | null;
        };
        /** @enum {string} */
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
            backend: string;
            command: string[] | null;
            /** Format: date-time */
            created_at: string;
            id: string;
            image: string | null;
            initial_env: {
                [key: string]: string;
            };
            limits: components["schemas"]["SandboxLimits"];
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
        SandboxUsage: {
            cpu_seconds: number | null;
            disk_bytes: number | null;
            inodes: number | null;
            limits: components["schemas"]["SandboxLimits"];
            memory_bytes: number | null;
            oom_kills: number | null;
            processes: number | null;
        };
        SaveProfileRequest: {
            /** @default true */
            include_secrets: boolean;
            llm?: components["schemas"]["StrictLLM"];
            /** @default false */
            preserve_existing_api_key: boolean;
        };
        SecretName: {
            description: string | null;
            name: string;
        };
        SecurityAnalyzer: components["schemas"]["LLMSecurityAnalyzer"] | components["schemas"]["PatternSecurityAnalyzer"] | components["schemas"]["PolicyRailSecurityAnalyzer"] | components["schemas"]["EnsembleSecurityAnalyzer"];
        SendMessageRequest: {
            /** @default [] */
            content: components["schemas"]["Content"][];
            /**
             * @default user
             * @enum {string}
             */
            role: "user" | "system" | "assistant" | "tool";
            /** @default false */
            run: boolean;
        };
        ServerInfo: {
            capabilities: string[];
            docs: string;
            idle_time: number;
            parley_version: string;
            redoc?: string;
            resources: {
                cpu_percent?: number;
                disk?: {
                    free?: number;
                    percent?: number;
                    total?: number;
                    used?: number;
                };
                io?: {
                    read_bytes?: number;
                    write_bytes?: number;
                };
                memory?: {
                    percent?: number;
                    rss?: number;
                    vms?: number;
                };
            };
            sdk_version: string;
            title: string;
            tools_version: string;
            uptime: number;
            usable_tools: string[];
            version: string;
            workspace_version: string;
        };
        Settings: {
            agent?: string | null;
            condenser_max_size?: number | null;
            confirmation_mode?: boolean | null;
            email?: string | null;
            email_verified?: boolean | null;
            /** @default true */
            enable_default_condenser: boolean;
            /** @default true */
            enable_proactive_conversation_starters: boolean;
            /** @default true */
            enable_solvability_analysis: boolean;
            /** @default false */
            enable_sound_notifications: boolean;
            git_user_email?: string | null;
            git_user_name?: string | null;
            language?: string | null;
            /** Format: password */
            llm_api_key?: string | null;
            llm_base_url?: string | null;
            llm_model?: string | null;
            max_budget_per_task?: number | null;
            max_iterations?: number | null;
            mcp_config?: components["schemas"]["MCPConfig"] | null;
            remote_runtime_resource_factor?: number | null;
            /** Format: password */
            sandbox_api_key?: string | null;
            sandbox_base_container_image?: string | null;
            sandbox_runtime_container_image?: string | null;
            /** Format: password */
            search_api_key?: string | null;
            secrets_store?: components["schemas"]["UserSecrets"];
            security_analyzer?: string | null;
            user_consents_to_analytics?: boolean | null;
            v1_enabled?: boolean | null;
        };
        "Settings.v1": {
            active_agent_profile_id: string | null;
            active_agent_profile_revision: number | null;
            agent_settings: {
                agent: string;
                agent_kind: string;
                condenser: {
                    enabled: boolean;
                    max_size: number;
                };
                enable_sub_agents?: boolean;
                llm: {
                    api_key: null;
                    base_url: string | null;
                    model: string;
                };
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
            default_sandbox_spec_id: string | null;
            disabled_skills: string[] | null;
            email: string | null;
            email_verified: boolean | null;
            enable_proactive_conversation_starters: boolean;
            enable_sound_notifications: boolean;
            git_full_clone: boolean;
            git_user_email: string | null;
            git_user_name: string | null;
            inherited_marketplaces: unknown[];
            language: string | null;
            llm_api_key_set: boolean;
            llm_profiles: {
                active: string | null;
                profiles: {
                    [key: string]: Record<string, unknown>;
                };
            };
            max_budget_per_task: number | null;
            provider_tokens_set: {
                [key: string]: string | null;
            };
            registered_marketplaces: components["schemas"]["MarketplaceRegistration"][];
            remote_runtime_resource_factor: number | null;
            sandbox_api_key: null;
            sandbox_base_container_image: string | null;
            sandbox_grouping_strategy: components["schemas"]["SandboxGroupingStrategy"];
            sandbox_runtime_container_image: string | null;
            search_api_key: null;
            search_api_key_set: boolean;
            secrets_store: Record<string, unknown>;
            title_llm_profile: string | null;
            user_consents_to_analytics: boolean | null;
            user_version: number | null;
            v1_enabled: boolean;
        };
        SettingsChange: {
            active_agent_profile_id?: string | null;
            active_agent_profile_revision?: number | null;
            agent_settings_diff?: components["schemas"]["AgentSettingsChange"] | null;
            conversation_settings_diff?: components["schemas"]["ConversationSettingsChange"] | null;
            default_sandbox_spec_id?: string | null;
            disabled_skills?: string[] | null;
            email?: string | null;
            email_verified?: boolean | null;
            enable_proactive_conversation_starters?: boolean | null;
            enable_sound_notifications?: boolean | null;
            git_full_clone?: boolean | null;
            git_user_email?: string | null;
            git_user_name?: string | null;
            language?: string | null;
            max_budget_per_task?: number | null;
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
            title_llm_profile?: string | null;
            user_consents_to_analytics?: boolean | null;
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
        SettingsView: {
            agent?: string | null;
            condenser_max_size?: number | null;
            confirmation_mode?: boolean | null;
            email?: string | null;
            email_verified?: boolean | null;
            /** @default true */
            enable_default_condenser: boolean;
            /** @default true */
            enable_proactive_conversation_starters: boolean;
            /** @default true */
            enable_solvability_analysis: boolean;
            /** @default false */
            enable_sound_notifications: boolean;
            git_user_email?: string | null;
            git_user_name?: string | null;
            language?: string | null;
            /** Format: password */
            llm_api_key?: string | null;
            llm_api_key_set: boolean;
            llm_base_url?: string | null;
            llm_model?: string | null;
            max_budget_per_task?: number | null;
            max_iterations?: number | null;
            mcp_config?: components["schemas"]["MCPConfig"] | null;
            provider_tokens_set?: {
                [key: string]: string | null;
            };
            remote_runtime_resource_factor?: number | null;
            /** Format: password */
            sandbox_api_key?: string | null;
            sandbox_base_container_image?: string | null;
            sandbox_runtime_container_image?: string | null;
            /** Format: password */
            search_api_key?: string | null;
            search_api_key_set?: boolean;
            secrets_store?: components["schemas"]["UserSecrets"];
            security_analyzer?: string | null;
            user_consents_to_analytics?: boolean | null;
            v1_enabled?: boolean | null;
        };
        Spending: {
            cache_read_tokens: number;
            cache_write_tokens: number;
            calls: number;
            completion_tokens: number;
            cost: number;
            prompt_tokens: number;
            reasoning_tokens: number;
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
        TraceValue: string | boolean | number | string[] | boolean[] | number[];
        TrustAnswer: {
            hash: string;
            subject: string;
            trusted: boolean;
        };
        TrustQuestions: {
            questions: {
                hash: string;
                runs: string[];
                subject: string;
            }[];
        };
        UpdateWebhookRequest: {
            active?: boolean;
            conversation_ids?: string[] | null;
            description?: string;
            kinds?: string[] | null;
            secret?: string | null;
            status_only?: boolean;
            tags?: {
                [key: string]: string;
            } | null;
            url?: string;
        };
        UserInfo: {
            active_agent_profile_id?: string | null;
            active_agent_profile_revision?: number | null;
            agent_settings: {
                agent: string;
                agent_kind: string;
                condenser: {
                    enabled: boolean;
                    max_size: number;
                };
                enable_sub_agents?: boolean;
                llm: {
                    api_key: string | null;
                    base_url: string | null;
                    model: string;
                };
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
            default_sandbox_spec_id?: string | null;
            disabled_skills?: string[] | null;
            email?: string | null;
            email_verified?: boolean | null;
            enable_proactive_conversation_starters?: boolean;
            enable_sound_notifications?: boolean;
            git_full_clone?: boolean;
            git_user_email?: string | null;
            git_user_name?: string | null;
            id: string;
            inherited_marketplaces?: unknown[];
            language?: string | null;
            llm_api_key: string | null;
            llm_api_key_set: boolean;
            llm_base_url: string | null;
            llm_model: string | null;
            llm_profiles: {
                active: string | null;
                profiles: {
                    [key: string]: Record<string, unknown>;
                };
            };
            max_budget_per_task?: number | null;
            mcp_config: Record<string, unknown>;
            org_id: null;
            org_name: null;
            permissions: null;
            provider_tokens_set?: {
                [key: string]: string | null;
            };
            registered_marketplaces?: components["schemas"]["MarketplaceRegistration"][];
            remote_runtime_resource_factor?: number | null;
            role: null;
            sandbox_api_key?: string | null;
            sandbox_base_container_image?: string | null;
            sandbox_grouping_strategy?: components["schemas"]["SandboxGroupingStrategy"];
            sandbox_runtime_container_image?: string | null;
            search_api_key?: string | null;
            search_api_key_set?: boolean;
            secrets_store?: Record<string, unknown>;
            title_llm_profile?: string | null;
            user_consents_to_analytics?: boolean | null;
            user_version?: number | null;
            v1_enabled?: boolean;
        };
        UserSecrets: {
            custom_secrets?: {
                [key: string]: unknown;
            };
            provider_tokens?: {
                [key: string]: unknown;
            };
        };
        ValidationError: {
            ctx?: Record<string, unknown>;
            input: unknown;
            loc: (string | number)[];
            msg: string;
            type: string;
        };
        Webhook: {
            active: boolean;
            conversation_ids: string[];
            /** Format: date-time */
            created_at: string;
            description: string;
            disabled_reason: string | null;
            /** Format: date-time */
            failing_since: string | null;
            id: string;
            kinds: string[];
            /** Format: date-time */
            last_delivered_at: string | null;
            last_error: string | null;
            status_only: boolean;
            tags: {
                [key: string]: string;
            };
            /** Format: date-time */
            updated_at: string;
            url: string;
        };
        WebhookDelivery: {
            attempts: number;
            conversation_id: string | null;
            /** Format: date-time */
            created_at: string;
            delivered: boolean;
            error: string | null;
            events: number;
            first_seq: number | null;
            http_status: number | null;
            id: string;
            last_seq: number | null;
            /** Format: date-time */
            next_attempt_at: string | null;
            /** Format: date-time */
            updated_at: string;
        };
        WebhookDeliveryPage: {
            items: components["schemas"]["WebhookDelivery"][];
            next_page_id: string | null;
        };
        WebhookPage: {
            items: components["schemas"]["Webhook"][];
            next_page_id: string | null;
        };
        Workspace: {
            working_dir: string;
        };
    };
    responses: {
        ErrorAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        "ErrorAnswer.agent": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error.agent"];
            };
        };
        GitUnauthorizedAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": string | components["schemas"]["Error"];
            };
        };
        InvalidAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HTTPValidationError"];
            };
        };
        SettingsErrorAnswer: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["SettingsErrorText"];
            };
        };
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
        "ConversationIdParameter.agent": string;
        ConversationOrderParameter: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" | "TITLE" | "TITLE_DESC";
        CreatedFromParameter: string | null;
        CreatedToParameter: string | null;
        EndpointIdParameter: string;
        EventFromParameter: string | null;
        EventKindParameter: components["schemas"]["EventKind"];
        EventOrderParameter: "TIMESTAMP" | "TIMESTAMP_DESC";
        EventToParameter: string | null;
        GitLimitParameter: number;
        GitProviderParameter: components["schemas"]["ProviderType.v1"];
        HostPartParameter: string | null;
        IdempotencyKeyParameter: string;
        IncludeSubsParameter: boolean;
        LimitParameter: number;
        PageIdParameter: string | null;
        ProfileNameParameter: string;
        SandboxEqParameter: string | null;
        SandboxIdParameter: string;
        ShortLimitParameter: number;
        TitleContainsParameter: string | null;
        UpdatedFromParameter: string | null;
        UpdatedToParameter: string | null;
        VerdictParameter: "allowed" | "refused" | "failed" | null;
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
                conversation_id: components["parameters"]["ConversationIdParameter.agent"];
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
    download_file: {
        parameters: {
            query: {
                path: string;
            };
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            400: components["responses"]["ErrorAnswer.agent"];
            403: components["responses"]["ErrorAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            410: components["responses"]["ErrorAnswer.agent"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    upload_file: {
        parameters: {
            query: {
                path: string;
            };
            header?: never;
            path: {
                sandbox_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            200: components["responses"]["SuccessAnswer.agent"];
            400: components["responses"]["ErrorAnswer.agent"];
            403: components["responses"]["ErrorAnswer.agent"];
            404: components["responses"]["ErrorAnswer.agent"];
            410: components["responses"]["ErrorAnswer.agent"];
            413: components["responses"]["ErrorAnswer.agent"];
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
                    /** Format: uuid */
                    org_id?: string | null;
                };
            };
        };
        responses: {
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
    load_settings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsView"];
                };
            };
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorText"];
                };
            };
        };
    };
    store_settings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Settings"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
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
                page_id?: components["parameters"]["PageIdParameter"];
                sandbox_id__eq?: components["parameters"]["SandboxEqParameter"];
                sort_order?: components["parameters"]["ConversationOrderParameter"];
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
                level?: boolean;
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
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
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
    get_conversation_network: {
        parameters: {
            query?: {
                host?: components["parameters"]["HostPartParameter"];
                limit?: components["parameters"]["LimitParameter"];
                page_id?: components["parameters"]["PageIdParameter"];
                verdict?: components["parameters"]["VerdictParameter"];
            };
            header?: never;
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConnectionPage"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
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
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
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
                page_id?: components["parameters"]["PageIdParameter"];
                sandbox_id__eq?: components["parameters"]["SandboxEqParameter"];
                sort_order?: components["parameters"]["ConversationOrderParameter"];
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
                page_id?: components["parameters"]["PageIdParameter"];
                sort_order?: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                page_id?: components["parameters"]["PageIdParameter"];
                provider__eq?: string | null;
                query?: string | null;
                verified__eq?: boolean | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                page_id?: components["parameters"]["PageIdParameter"];
                query?: string | null;
                verified__eq?: boolean | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                page_id?: components["parameters"]["PageIdParameter"];
                sort_order?: components["parameters"]["EventOrderParameter"];
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
                after_seq?: number;
            };
            header?: {
                "Last-Event-ID"?: string;
            };
            path: {
                conversation_id: components["parameters"]["ConversationIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                page_id?: components["parameters"]["PageIdParameter"];
                provider: components["parameters"]["GitProviderParameter"];
                query: string;
                repository: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BranchPage.v1"];
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
                installation_id?: string | null;
                limit?: components["parameters"]["LimitParameter"];
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
    test_git_provider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GitTestRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GitTest"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
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
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
    get_sandboxes: {
        parameters: {
            query: {
                id: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": (components["schemas"]["SandboxInfo"] | null)[];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    delete_sandbox: {
        parameters: {
            query?: {
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
    make_preview_ticket: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                port: number;
                sandbox_id: components["parameters"]["SandboxIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewTicket"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            410: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
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
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                page_id?: components["parameters"]["PageIdParameter"];
                query: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                    /** Format: password */
                    value: string;
                };
            };
        };
        responses: {
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
                secret_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
                name__contains?: string | null;
                page_id?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
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
    list_profiles: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileList"];
                };
            };
        };
    };
    get_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileDetail"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    save_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SaveProfileRequest"] | null;
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileMutation"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    delete_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileMutation"];
                };
            };
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    activate_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileActivation"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    rename_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenameProfileRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileMutation"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
        };
    };
    test_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: components["parameters"]["ProfileNameParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LLMTest"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
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
    create_webhook: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateWebhookRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedWebhook"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            409: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    delete_webhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["parameters"]["EndpointIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Success"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    update_webhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["parameters"]["EndpointIdParameter"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateWebhookRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            400: components["responses"]["ErrorAnswer"];
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    search_webhook_deliveries: {
        parameters: {
            query?: {
                failed?: boolean;
                limit?: components["parameters"]["LimitParameter"];
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path: {
                endpoint_id: components["parameters"]["EndpointIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDeliveryPage"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    test_webhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["parameters"]["EndpointIdParameter"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDelivery"];
                };
            };
            404: components["responses"]["ErrorAnswer"];
            501: components["responses"]["ErrorAnswer"];
        };
    };
    search_webhooks: {
        parameters: {
            query?: {
                limit?: components["parameters"]["LimitParameter"];
                page_id?: components["parameters"]["PageIdParameter"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookPage"];
                };
            };
            422: components["responses"]["InvalidAnswer"];
            501: components["responses"]["ErrorAnswer"];
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
