package v1

import (
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
)

// operations are what the document names, by operation id.
func (h *handlers) operations() httpkit.Handlers {
	return httpkit.JoinHandlers(h.conversationsOperations(), h.eventsOperations(), h.sandboxesOperations(), h.modelsOperations(), h.extensionsOperations(), h.gitOperations(), h.accountOperations(), h.webhooksOperations(), h.reportsOperations())
}

// conversationsOperations start conversations, list and change them.
func (h *handlers) conversationsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"list_app_conversations":        h.listConversations,
		"search_app_conversations":      h.searchConversations,
		"count_app_conversations":       h.countConversations,
		"get_app_conversation":          h.getConversation,
		"update_app_conversation":       h.updateConversation,
		"delete_app_conversation":       h.deleteConversation,
		"send_message":                  h.sendMessage,
		"start_app_conversation":        h.start,
		"stream_app_conversation_start": h.streamStart,
		"get_start_tasks":               h.getTasks,
		"search_start_tasks":            h.searchTasks,
		"count_start_tasks":             h.countTasks,
		"get_conversation_network":      h.conversationNetwork,
		"read_conversation_file":        h.readFile,
		"list_conversation_files":       h.listFiles,
		"get_conversation_git_changes":  h.gitChanges,
		"get_conversation_git_diff":     h.gitDiff,
		"fork_conversation":             h.fork,
		"download_conversation":         h.download,
		"queue_pending_message":         h.queueMessage,
		"search_texts":                  h.findText,
		"share_conversation":            h.share,
		"list_conversation_shares":      h.listShares,
		"revoke_conversation_share":     h.revokeShare,
	}
}

// eventsOperations read events, page by page and live.
func (h *handlers) eventsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"get_events":           h.getEvents,
		"search_events":        h.searchEvents,
		"count_events":         h.countEvents,
		"stream_events":        h.streamEvents,
		"get_events_legacy":    h.getEvents,
		"search_events_legacy": h.searchEvents,
		"count_events_legacy":  h.countEvents,
	}
}

// sandboxesOperations are about sandboxes and their templates.
func (h *handlers) sandboxesOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"get_sandboxes":        h.getSandboxes,
		"start_sandbox":        h.startSandbox,
		"search_sandboxes":     h.searchSandboxes,
		"delete_sandbox":       h.deleteSandbox,
		"pause_sandbox":        h.pauseSandbox,
		"resume_sandbox":       h.resumeSandbox,
		"get_sandbox_network":  h.sandboxNetwork,
		"get_sandbox_usage":    h.sandboxUsage,
		"make_preview_ticket":  h.previewTicket,
		"open_terminal":        h.terminal,
		"get_sandbox_specs":    h.getSpecs,
		"search_sandbox_specs": h.searchSpecs,
	}
}

// modelsOperations are about models, profiles and money.
func (h *handlers) modelsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"search_models":                 h.searchModels,
		"search_providers":              h.searchProviders,
		"search_model_details":          h.searchDetails,
		"list_profiles":                 h.listProfiles,
		"get_profile":                   h.getProfile,
		"save_profile":                  h.saveProfile,
		"delete_profile":                h.deleteProfile,
		"activate_profile":              h.activateProfile,
		"rename_profile":                h.renameProfile,
		"test_profile":                  h.testProfile,
		"test_llm":                      h.testLLM,
		"switch_conversation_profile":   h.switchProfile,
		"get_conversation_usage":        h.conversationUsage,
		"get_usage":                     h.usage,
		"switch_conversation_acp_model": h.switchACPModel,
	}
}

// extensionsOperations are about skills, hooks, trust and MCP servers.
func (h *handlers) extensionsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"get_conversation_skills": h.conversationSkills,
		"get_conversation_hooks":  h.conversationHooks,
		"get_trust_questions":     h.trustQuestions,
		"decide_trust":            h.decideTrust,
		"list_trust":              h.listTrust,
		"forget_trust":            h.forgetTrust,
		"search_skills":           h.searchSkills,
		"preview_marketplaces":    h.previewMarketplaces,
		"get_skill":               h.getSkill,
		"put_skill":               h.putSkill,
		"delete_skill":            h.deleteSkill,
		"test_mcp_server":         h.testServer,
		"start_mcp_login":         h.startLogin,
		"get_mcp_login":           h.loginStatus,
		"finish_mcp_login":        h.finishLogin,
	}
}

// gitOperations talk to git hosting services.
func (h *handlers) gitOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"search_git_installations":  h.withGit(h.searchInstallations),
		"search_git_repositories":   h.withGit(h.searchRepositories),
		"search_git_branches":       h.withGit(h.searchBranches),
		"search_suggested_tasks":    h.withGit(h.searchTasksToDo),
		"get_git_info":              h.withGit(h.gitInfo),
		"get_git_organizations":     h.withGit(h.gitOrganizations),
		"store_git_providers":       h.withGit(h.storeGitProviders),
		"delete_git_providers":      h.deleteGitProviders,
		"issue_git_access_token":    h.withGit(h.issueAccessToken),
		"get_git_token_for_webhook": h.withGit(h.redeemAccessToken),
		"test_git_provider":         h.withGit(h.testGitProvider),
	}
}

// accountOperations are about settings, secrets, keys and who the user is.
func (h *handlers) accountOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"load_settings":             h.loadSettings,
		"store_settings":            h.storeSettings,
		"get_agent_schema":          writeForm(settingswire.AgentForm),
		"get_conversation_schema":   writeForm(settingswire.ConversationForm),
		"search_secrets":            h.searchSecrets,
		"create_secret":             h.createSecret,
		"update_secret":             h.updateSecret,
		"delete_secret":             h.deleteSecret,
		"list_sandbox_secrets":      h.listSandboxSecrets,
		"read_sandbox_secret":       h.readSandboxSecret,
		"get_current_user":          h.getUser,
		"get_web_client_config":     h.webClientConfig,
		"list_api_keys":             h.listKeys,
		"create_api_key":            h.createKey,
		"delete_api_key":            h.deleteKey,
		"get_current_api_key":       h.currentKey,
		"list_agent_profiles":       h.agents().List,
		"get_agent_profile":         h.agents().Get,
		"save_agent_profile":        h.agents().Save,
		"delete_agent_profile":      h.agents().Delete,
		"rename_agent_profile":      h.agents().Rename,
		"activate_agent_profile":    h.agents().Activate,
		"materialize_agent_profile": h.agents().Materialize,
	}
}

// webhooksOperations are about webhooks.
func (h *handlers) webhooksOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"create_webhook":            h.createWebhook,
		"search_webhooks":           h.searchWebhooks,
		"get_webhook":               h.getWebhook,
		"update_webhook":            h.updateWebhook,
		"delete_webhook":            h.deleteWebhook,
		"search_webhook_deliveries": h.searchDeliveries,
		"replay_webhook":            h.replayWebhook,
		"test_webhook":              h.testWebhook,
	}
}
