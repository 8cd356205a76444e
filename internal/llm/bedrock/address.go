package bedrock

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"

	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/llm/wire"
)

// name is a model id taken apart.
type name struct {
	id     string // as it goes into the path
	region string // of an ARN, or written in front of the id; "" = none
}

var (
	regionText = lazyre.MustCompile(`^[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}$`)
	regionHost = lazyre.MustCompile(`(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.`)
)

// modelName reads the spellings of a model: an id, an ARN, and what users of
// LiteLLM write in front of either: the API, and a region.
func modelName(model string) name {
	n := name{id: strings.TrimSpace(model)}
	for {
		head, rest, ok := strings.Cut(n.id, "/")
		switch {
		case !ok || strings.HasPrefix(n.id, "arn:"):
			return n.withARN()
		case head == "bedrock" || head == "converse" || head == "invoke" || head == "converse_like":
		case regionText.MatchString(head):
			n.region = head
		default:
			return n
		}
		n.id = rest
	}
}

// withARN takes the region out of an ARN: arn:aws:bedrock:{region}:{account}:...
func (n name) withARN() name {
	parts := strings.SplitN(n.id, ":", 6)
	if len(parts) == 6 && parts[0] == "arn" && regionText.MatchString(parts[3]) {
		n.region = parts[3]
	}
	return n
}

// regionOf finds the region. Errors are fault.Invalid.
func regionOf(cfg *Config, n name) (string, error) {
	host := regionHost.FindStringSubmatch(cfg.BaseURL)
	region := strings.TrimSpace(cfg.Region)
	switch {
	case region != "":
	case n.region != "":
		region = n.region
	case host != nil && regionText.MatchString(host[1]):
		region = host[1]
	case cfg.useEnvironment():
		var err error
		if region, err = environmentRegion(cfg.Profile); err != nil {
			return "", err
		}
	}
	if region == "" {
		if cfg.BaseURL != "" && cfg.bearer() != "" {
			return "", nil // neither the address nor a signature needs it
		}
		return "", fault.New(fault.Invalid, "llm_aws_region_missing", "No AWS region is set for the model %q.", n.id).
			WithHint("Set the AWS region of the model, for example \"us-east-1\", use an ARN, or start the server with AWS_REGION.")
	}
	if !regionText.MatchString(region) {
		return "", fault.New(fault.Invalid, "llm_aws_region_invalid", "%q is no AWS region.", region).
			WithHint("It looks like \"us-east-1\".")
	}
	return region, nil
}

// environmentRegion asks the SDK for the region of the environment and of the
// profile. It reads files, no network.
func environmentRegion(profile string) (string, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "llm_aws_environment_invalid",
			"The server's AWS environment variables cannot be read.").WithHint("Set the AWS region of the model.")
	}
	chosen := strings.TrimSpace(profile)
	if env.Region != "" && chosen == "" {
		return env.Region, nil
	}
	used := chosen
	if used == "" {
		used = env.SharedConfigProfile
	}
	if used == "" {
		used = config.DefaultSharedConfigProfile
	}
	shared, err := config.LoadSharedConfigProfile(context.Background(), used, func(o *config.LoadSharedConfigOptions) {
		if env.SharedConfigFile != "" {
			o.ConfigFiles = []string{env.SharedConfigFile}
		}
		if env.SharedCredentialsFile != "" {
			o.CredentialsFiles = []string{env.SharedCredentialsFile}
		}
	})
	if err != nil && chosen != "" {
		return "", fault.Wrap(err, fault.Invalid, "llm_aws_profile_invalid",
			"The AWS profile %q cannot be read from the server's shared AWS configuration.", chosen).
			WithHint("It must be in ~/.aws/config or ~/.aws/credentials of the user that runs the server.")
	}
	if err == nil && shared.Region != "" {
		return shared.Region, nil
	}
	return env.Region, nil
}

// endpointOf returns the address of a model, up to the operation.
func endpointOf(base, region, id string) (string, error) {
	if base == "" {
		base = "https://bedrock-runtime." + region + "." + domainOf(region)
	}
	u, err := wire.Endpoint(base)
	if err != nil {
		return "", err
	}
	// A query of the base is dropped: it would end up in the middle of the path.
	u.RawQuery, u.User = "", nil
	return strings.TrimRight(u.String(), "/") + "/model/" + escape(id) + "/", nil
}

func domainOf(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// escape encodes an id as one segment of a path. Everything but the unreserved
// characters is encoded, the colons of versions and ARNs and the slashes too: the
// service computes the signature over exactly this spelling, encoded once more.
func escape(id string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// geography is the prefix of the inference profiles that are used from a region.
func geography(region string) string {
	prefix, _, _ := strings.Cut(region, "-")
	switch prefix {
	case "us", "eu":
		return prefix + "."
	case "ap":
		return "apac."
	}
	return "global."
}
