package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
)

// webClientConfig is what a web client asks for first, before anybody logged in.
func (h *handlers) webClientConfig(w http.ResponseWriter, _ *httpkit.Request) error {
	flags := map[string]any{"enable_billing": false, "hide_llm_settings": false, "enable_jira": false, "enable_jira_dc": false,
		"enable_linear": false, "hide_users_page": true, "hide_billing_page": true, "hide_integrations_page": false,
		"hide_personal_workspaces": false, "allow_user_llm_configuration": true, "enable_acp": false, "deployment_mode": "self_hosted",
		"enable_onboarding": false, "enable_automations": false, "enable_agent_canvas_banner": false}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"kind": "WebClientConfig", "app_mode": "oss", "posthog_client_key": nil,
		"feature_flags": flags, "providers_configured": []string{}, "maintenance_start_time": nil, "auth_url": nil, "recaptcha_site_key": nil,
		"faulty_models": []string{}, "error_message": nil, "updated_at": httpkit.FormatTime(h.started), "github_app_slug": nil,
		"gitlab_enabled": false, "provider_default_hosts": map[string]string{}, "slack_enabled": false, "email_enabled": false,
		"email_change_enabled": true, "acp_providers": []any{}, "jira_dc_oauth_host": nil, "jira_dc_service_account_managed": false,
		"jira_dc_service_account_email": nil, "jira_dc_service_account_config_error": nil})
}

func writeForm(form func() settingswire.Form) httpkit.Handler {
	return func(w http.ResponseWriter, _ *httpkit.Request) error { return httpkit.JSON(w, http.StatusOK, form()) }
}
