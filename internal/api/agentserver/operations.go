package agentserver

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/store"
)

// handlers are what the document names, by operation id.
func (s *Server) handlers() httpkit.Handlers {
	return httpkit.JoinHandlers(s.serverOperations(), s.conversationOperations(), s.eventOperations(), s.workspaceOperations(), s.modelOperations(), s.extensionOperations(), s.settingsOperations())
}

// serverOperations tell about the server.
func (s *Server) serverOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"agent_alive":       s.alive,
		"agent_health":      s.alive,
		"agent_ready":       s.ready,
		"agent_server_info": s.info,
		"agent_root":        s.info,
	}
}

// conversationOperations start conversations, drive and change them.
func (s *Server) conversationOperations() httpkit.Handlers {
	e := s.cfg.Engine
	return httpkit.Handlers{
		"get_conversations":       s.getConversations,
		"search_conversations":    s.searchConversations,
		"count_conversations":     s.countConversations,
		"get_conversation":        s.getConversation,
		"update_conversation":     s.updateConversation,
		"delete_conversation":     s.deleteConversation,
		"start_conversation":      s.startConversation,
		"run_conversation":        command(s.find, s.run),
		"pause_conversation":      command(s.findOr400, e.Pause),
		"interrupt_conversation":  command(s.findOr400, e.Interrupt),
		"condense_conversation":   command(s.find, e.Condense),
		"stop_goal":               command(s.find, e.StopGoal),
		"resume_goal":             command(s.find, e.ResumeGoal),
		"start_goal":              s.startGoal,
		"set_confirmation_policy": s.setPolicy,
		"add_secrets":             s.addSecrets,
		"set_security_analyzer":   s.setAnalyzer,
		"ask_agent":               s.ask,
		"fork_conversation":       s.fork,
		"navigate_conversation":   s.navigate,
		"download_trajectory":     s.downloadTrajectory,
	}
}

// eventOperations read events and send messages.
func (s *Server) eventOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"get_final_response":      s.finalResponse,
		"send_message":            s.sendMessage,
		"search_events":           s.searchEvents,
		"stream_events":           s.streamEvents,
		"count_events":            s.countEvents,
		"respond_to_confirmation": s.confirm,
		"get_event":               s.getEvent,
	}
}

// workspaceOperations work with a sandbox: commands, files, git, editors.
func (s *Server) workspaceOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"open_workspace_session":  s.openWorkspaceSession,
		"close_workspace_session": s.closeWorkspaceSession,
		"get_editor_url":          s.editorURL,
		"get_editor_status":       s.editorStatus,
		"get_desktop_url":         s.desktopURL,
		"list_places":             s.listPlaces,
		"save_workspace":          s.owner(s.savePlaces(store.PlaceWorkspace)),
		"delete_workspace":        s.owner(s.deletePlace(store.PlaceWorkspace)),
		"save_workspace_parent":   s.owner(s.savePlaces(store.PlaceParent)),
		"delete_workspace_parent": s.owner(s.deletePlace(store.PlaceParent)),
		"start_bash_command":      s.startBash,
		"execute_bash_command":    s.executeBash,
		"search_bash_events":      s.searchBash,
		"get_bash_event":          s.getBash,
		"get_bash_events":         s.batchBash,
		"clear_bash_events":       s.clearBash,
		"git_changes":             s.gitChanges,
		"git_changes_at":          s.gitChanges,
		"git_diff":                s.gitDiff,
		"git_diff_at":             s.gitDiff,
		"git_commits":             s.gitCommits,
		"git_commit_changes":      s.gitCommitChanges,
		"upload_file":             s.uploadFile,
		"upload_file_at":          s.uploadFile,
		"download_file":           s.downloadFile,
		"download_file_at":        s.downloadFile,
		"create_directory":        s.createDirectory,
		"file_home":               s.fileHome,
		"search_subdirs":          s.searchSubdirs,
		"archive_directory":       s.archiveDirectory,
	}
}

// modelOperations are about models, profiles, and the agent as a model.
func (s *Server) modelOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"list_llm_providers":     s.llmProviders,
		"list_llm_models":        s.llmModels,
		"list_verified_models":   s.llmVerified,
		"switch_profile":         s.switchProfile,
		"switch_llm":             s.switchLLM,
		"list_profiles":          s.listProfiles,
		"get_profile":            s.getProfile,
		"save_profile":           s.owner(s.saveProfile),
		"delete_profile":         s.owner(s.deleteProfile),
		"rename_profile":         s.owner(s.renameProfile),
		"activate_profile":       s.owner(s.activateProfile),
		"validate_profile":       s.validateProfile,
		"list_chat_models":       s.chatModels,
		"create_chat_completion": s.complete,
	}
}

// extensionOperations are about tools, skills, hooks, trust, sub-agents and MCP servers.
func (s *Server) extensionOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"list_tools":             s.tools,
		"list_installed_plugins": s.listPlugins,
		"list_skills":            s.listSkills,
		"list_hooks":             s.listHooks,
		"list_sub_agents":        s.listAgents,
		"test_mcp_server":        s.testServer,
		"start_mcp_oauth":        s.startLogin,
		"get_mcp_oauth":          s.loginStatus,
		"finish_mcp_oauth":       s.finishLogin,
		"list_trust_questions":   s.listTrust,
		"decide_trust":           s.decideTrust,
	}
}

// settingsOperations are about the settings of the owner.
func (s *Server) settingsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"get_settings":              s.getSettings,
		"update_settings":           s.owner(s.updateSettings),
		"add_settings_server":       s.owner(s.putServer(false, http.StatusCreated)),
		"change_settings_server":    s.owner(s.putServer(true, http.StatusOK)),
		"delete_settings_server":    s.owner(s.deleteServer),
		"get_agent_schema":          writeForm(settingswire.AgentForm),
		"get_conversation_schema":   writeForm(settingswire.ConversationForm),
		"list_secrets":              s.listSecrets,
		"read_secret":               s.readSecret,
		"put_secret":                s.owner(s.putSecret),
		"delete_secret":             s.owner(s.deleteSecret),
		"list_provider_connections": s.listConnections,
		"list_agent_profiles":       s.agents().List,
		"get_agent_profile":         s.agents().Get,
		"save_agent_profile":        s.owner(s.agents().Save),
		"delete_agent_profile":      s.owner(s.agents().Delete),
		"rename_agent_profile":      s.owner(s.agents().Rename),
		"activate_agent_profile":    s.owner(s.agents().Activate),
		"materialize_agent_profile": s.agents().Materialize,
	}
}
