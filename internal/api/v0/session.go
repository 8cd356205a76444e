package v0

import "parley/internal/api/httpkit"

// sessionHandlers are what a conversation offers besides its events and its files.
func (h *handlers) sessionHandlers() httpkit.Handlers {
	return httpkit.Handlers{
		"get_remote_runtime_config": h.runtimeConfig,
		"get_vscode_url":            h.editorURL,
		"get_hosts":                 h.webHosts,
		"get_remember_prompt":       h.rememberPrompt,
		"submit_feedback":           h.submitFeedback,
		"add_exp_config":            h.expConfig,
	}
}

func sessionEncoders() map[string]httpkit.ErrorEncoder {
	return map[string]httpkit.ErrorEncoder{
		"get_trajectory":  trajectoryErrors,
		"submit_feedback": feedbackErrors,
		"add_exp_config":  experimentErrors,
	}
}
