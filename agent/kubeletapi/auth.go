package kubeletapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// How long answers of the API server are believed are kubelet's defaults.
const (
	authenticationTTL = 2 * time.Minute
	allowTTL          = 5 * time.Minute
	denyTTL           = 30 * time.Second
	reviewTimeout     = 10 * time.Second
)

// retries is how often a review is asked for that fails.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// guard lets those pass that the API server knows and allows.
type guard struct {
	node          string
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
}

// newGuard follows the file of certificate authorities until ctx ends. Without a file, there
// are only tokens.
func newGuard(ctx context.Context, node string, client kubernetes.Interface, authorities string) (*guard, error) {
	config := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:               &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: retries(), CacheTTL: authenticationTTL,
	}
	if authorities != "" {
		content, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", authorities)
		if err != nil {
			return nil, err
		}
		go content.Run(ctx, 1)
		config.ClientCertificateCAContentProvider = content
	}
	who, _, err := config.New()
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL, WebhookRetryBackoff: retries(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	return &guard{node, who, may}, nil
}

// before answers those who may not pass, and hands the others on.
func (g *guard) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known, err := g.authenticator.AuthenticateRequest(r)
		if err != nil || !known {
			klog.FromContext(r.Context()).V(2).Info("Request of somebody unknown", "path", r.URL.Path, "err", err)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		for _, attributes := range g.attributes(who.User, r) {
			decision, _, err := g.authorizer.Authorize(r.Context(), attributes)
			if err != nil {
				klog.FromContext(r.Context()).Error(err, "It is not known whether a request is allowed", "user", who.User.GetName(), "path", r.URL.Path)
				http.Error(w, "the API server cannot be asked whether this is allowed", http.StatusInternalServerError)
				return
			}
			if decision == authorizer.DecisionAllow {
				next.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, fmt.Sprintf("Forbidden: user %q may not %s %s of node %s", who.User.GetName(), verbOf(r), resourceOf(r)[0], g.node), http.StatusForbidden)
	})
}

// attributes are the questions of which one must be answered with yes. They are kubelet's.
func (g *guard) attributes(who user.Info, r *http.Request) []authorizer.Attributes {
	var all []authorizer.Attributes
	for _, subresource := range resourceOf(r) {
		all = append(all, authorizer.AttributesRecord{
			User: who, Verb: verbOf(r), APIVersion: "v1", Resource: "nodes", Subresource: subresource, Name: g.node, ResourceRequest: true, Path: r.URL.Path,
		})
	}
	return all
}

func verbOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// resourceOf are the subresources of the node of which one must be allowed.
func resourceOf(r *http.Request) []string {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "pods", "healthz":
		return []string{first, "proxy"}
	}
	return []string{"proxy"}
}
