// Package httpkit is what the HTTP APIs share: routing by OpenAPI documents,
// validation, error mapping, authentication, the outer guard (hosts, origins,
// CORS, logging, metrics), base URLs, and the two kinds of live streams.
//
// An API is its OpenAPI 3.1 document plus one handler per operationId:
//
//	//go:embed openapi.yaml
//	var document []byte
//
//	api, err := httpkit.NewAPI(httpkit.APIConfig{
//		Name:     "v1",
//		Document: document,
//		Handlers: httpkit.Handlers{"search_sandboxes": h.searchSandboxes, ...},
//		Encode:   httpkit.DetailErrors,           // error shape of the API
//		Encoders: map[string]httpkit.ErrorEncoder{ // other shapes, by operationId
//			"store_settings": settingsErrors,
//		},
//	})
//
// NewAPI fails if an operation has no handler or a handler no operation, so
// document and routes cannot drift apart. Paths, methods, parameters and bodies
// come from the document; an operation with "security: []" is public, all others
// need a user (APIConfig.Authorize replaces that rule).
//
// A handler gets validated and coerced input and returns an error instead of
// writing one:
//
//	func (h *handlers) searchSandboxes(w http.ResponseWriter, r *httpkit.Request) error {
//		var q struct {
//			Limit  int    `json:"limit"`   // the document's default is filled in
//			PageID string `json:"page_id"`
//		}
//		if err := r.Params(&q); err != nil { // path, query and header parameters by name
//			return err
//		}
//		...
//		return httpkit.JSON(w, http.StatusOK, page)
//	}
//
// r.Body(&v) decodes the request's body: only declared members (or those that
// additionalProperties allows) are left, defaults are filled in, lax values are
// coerced ("12" to 12) and absent members stay absent, so that a map or
// pointers tell absent from null. r.Principal.UserID owns what is asked for.
//
// Errors are faults (package fault). Describe maps kinds to statuses in one
// place; an ErrorEncoder renders the resulting Problem in an API's shape and may
// choose another status. A fault.Invalid with Fields is a 422 with the list of
// fields; without Fields it is a 400. Anything that is no fault is a 500 whose
// body carries an error id and no internal text; the log has the rest.
//
// Validation follows FastAPI and pydantic 2: all errors are collected, types and
// messages are pydantic's, unknown members are ignored unless the schema says
// "additionalProperties: false", and inputs that look like secrets are masked.
// Schema keywords understood: type (also a list with "null"), enum, const,
// properties, required, additionalProperties, propertyNames, items, minItems,
// maxItems, anyOf, oneOf, discriminator, minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, minLength, maxLength, pattern, format (uuid, date-time,
// password), default, $ref to "#/components/schemas/...". Any other keyword that
// would constrain values makes the document invalid.
//
// Wiring (done by package app):
//
//	mux, err := httpkit.NewMux(v0, v1, ops)           // user realm; JSON 404 and 405
//	root := agent.Handler(mux)                        // agent realm, by path or credential
//	root = httpkit.NewGuard(guardConfig).Wrap(root)   // everything around
//
// Package httpkittest checks responses against documents in tests.
package httpkit
