// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// How long reviews of the API server are cached, and how long one may take. The values are
// kubelet's defaults.
const (
	authenticationTTL = 2 * time.Minute
	allowTTL          = 5 * time.Minute
	denyTTL           = 30 * time.Second
	reviewTimeout     = 10 * time.Second
)

// retries is the backoff with which a failed review is repeated.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// Auth authenticates and authorizes requests. Its attributes are those that the API server's
// authorizers understand.
type Auth interface {
	authenticator.Request
	authorizer.RequestAttributesGetter
	authorizer.Authorizer
}

// auth composes an Auth of three parts.
type auth struct {
	authenticator.Request
	authorizer.RequestAttributesGetter
	authorizer.Authorizer
}

// InstrumentAuth returns auth unchanged, since WithAuth logs refused requests.
func InstrumentAuth(auth Auth) Auth { return auth }

// NoAuth allows all requests.
func NoAuth() Auth {
	return auth{anonymous.NewAuthenticator(nil), NodeRequestAttr{}, authorizerfactory.NewAlwaysAllowAuthorizer()}
}

// WebhookAuthConfig is what options of WebhookAuth set. WebhookAuth sets its clients after the
// options have run.
type WebhookAuthConfig struct {
	AuthnConfig authenticatorfactory.DelegatingAuthenticatorConfig
	AuthzConfig authorizerfactory.DelegatingAuthorizerConfig
}

// WebhookAuthOption changes the configuration of WebhookAuth. If it returns an error, so does
// WebhookAuth.
type WebhookAuthOption func(*WebhookAuthConfig) error

// WebhookAuth authenticates tokens by TokenReviews, and authorizes requests for the node by
// SubjectAccessReviews, as kubelet does. Client certificates are accepted if an option sets
// AuthnConfig.ClientCertificateCAContentProvider. Anonymous requests are refused.
func WebhookAuth(client kubernetes.Interface, nodeName string, opts ...WebhookAuthOption) (Auth, error) {
	cfg := WebhookAuthConfig{
		AuthnConfig: authenticatorfactory.DelegatingAuthenticatorConfig{
			Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: false},
			TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: retries(), CacheTTL: authenticationTTL,
		},
		AuthzConfig: authorizerfactory.DelegatingAuthorizerConfig{AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL, WebhookRetryBackoff: retries()},
	}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	cfg.AuthnConfig.TokenAccessReviewClient = client.AuthenticationV1()
	cfg.AuthzConfig.SubjectAccessReviewClient = client.AuthorizationV1()
	who, _, err := cfg.AuthnConfig.New()
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	may, err := cfg.AuthzConfig.New()
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	return auth{who, NodeRequestAttr{nodeName}, may}, nil
}

// WithAuth passes allowed requests to h, and answers all others.
func WithAuth(auth Auth, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		who, known, err := auth.AuthenticateRequest(r)
		if err != nil || !known {
			logger.V(2).Info("Request of somebody unknown", "path", r.URL.Path, "err", err)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		asked := fineGrainedAttributes(auth.GetRequestAttributes(who.User, r))
		for _, attributes := range asked {
			decision, _, err := auth.Authorize(r.Context(), attributes)
			if err != nil {
				logger.Error(err, "It is not known whether a request is allowed", "user", who.User.GetName(), "path", r.URL.Path)
				http.Error(w, "the API server cannot be asked whether this is allowed", http.StatusInternalServerError)
				return
			}
			if decision == authorizer.DecisionAllow {
				h.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, fmt.Sprintf("Forbidden: user %q may not %s %s/%s %s", who.User.GetName(),
			asked[0].GetVerb(), asked[0].GetResource(), asked[0].GetSubresource(), asked[0].GetName()), http.StatusForbidden)
	})
}

// fineGrainedAttributes returns the permissions of which a request needs one. For pods and healthz
// that is nodes/pods or nodes/healthz, or else nodes/proxy, as with kubelet's fine-grained
// authorization.
func fineGrainedAttributes(asked authorizer.Attributes) []authorizer.Attributes {
	record, ours := asked.(authorizer.AttributesRecord)
	if !ours || record.Resource != "nodes" || record.Subresource != "proxy" {
		return []authorizer.Attributes{asked}
	}
	switch firstPart(record.Path) {
	case "pods", "runningpods":
		record.Subresource = "pods"
	case "healthz":
		record.Subresource = "healthz"
	default:
		return []authorizer.Attributes{asked}
	}
	return []authorizer.Attributes{record, asked}
}

// NodeRequestAttr translates requests to the attributes of a subresource of the node.
type NodeRequestAttr struct {
	NodeName string
}

// GetRequestAttributes returns the attributes nodes/stats, nodes/metrics, nodes/log or nodes/proxy,
// depending on the path, as kubelet does.
func (a NodeRequestAttr) GetRequestAttributes(u user.Info, r *http.Request) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: u, Verb: verbs[r.Method], APIVersion: "v1", Resource: "nodes", Subresource: subresource(r.URL.Path), Name: a.NodeName,
		ResourceRequest: true, Path: r.URL.Path,
	}
}

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

func subresource(path string) string {
	switch first := firstPart(path); first {
	case "stats", "metrics":
		return first
	case "logs": // of the node, not of a container
		return "log"
	}
	return "proxy"
}

func firstPart(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}
