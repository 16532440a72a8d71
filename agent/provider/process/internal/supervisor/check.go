// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/expansion"
)

// result is the result of one probe.
type result struct {
	healthy bool
	// warning says that the probe succeeded, and its output is to be recorded as an Event.
	warning bool
	output  string
}

// podAddress is the pod's address. Its supervisor is in the same network namespace.
const podAddress = "127.0.0.1"

// check runs a probe once. An error says that the probe could not be run.
func (p *probing) check(parent context.Context, probe *corev1.Probe) (result, error) {
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	switch {
	case probe.Exec != nil:
		return p.checkExec(ctx, probe.Exec, timeout)
	case probe.HTTPGet != nil:
		return checkHTTP(ctx, probe.HTTPGet, p.member.spec, timeout)
	case probe.TCPSocket != nil:
		port, err := portOf(probe.TCPSocket.Port, p.member.spec)
		if err != nil {
			return result{}, err
		}
		return checkTCP(ctx, net.JoinHostPort(orPod(probe.TCPSocket.Host), strconv.Itoa(port))), nil
	case probe.GRPC != nil:
		return checkGRPC(ctx, probe.GRPC, timeout), nil
	}
	return result{}, errors.New("the probe has no handler")
}

func orPod(host string) string {
	if host == "" {
		return podAddress
	}
	return host
}

// portOf returns the number of a port. A name refers to a port of the container.
func portOf(port intstr.IntOrString, container *corev1.Container) (int, error) {
	number := port.IntValue()
	if i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return port.Type == intstr.String && p.Name == port.StrVal }); i >= 0 {
		number = int(container.Ports[i].ContainerPort)
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("port %q: is neither a number nor the name of a port of the container", port.String())
	}
	return number, nil
}

// checkExec runs the command of a probe in the container. As in kubelet, its arguments can refer
// only to variables with literal values.
func (p *probing) checkExec(ctx context.Context, action *corev1.ExecAction, timeout time.Duration) (result, error) {
	variables := make(map[string]string)
	for _, variable := range p.member.spec.Env {
		if variable.ValueFrom == nil {
			variables[variable.Name] = variable.Value
		}
	}
	args := make([]string, len(action.Command))
	for i, arg := range action.Command {
		args[i] = expansion.Expand(arg, variables)
	}
	ran, err := p.container.run(ctx, args)
	if errors.Is(err, context.DeadlineExceeded) {
		return result{output: fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(args, " "), timeout)}, nil
	}
	if err != nil {
		return result{}, err
	}
	return result{healthy: ran.Code == 0, output: string(ran.Output)}, nil
}

// maxHeaders is the maximum size of a response's headers, in bytes.
const maxHeaders = 64 << 10

func checkHTTP(ctx context.Context, action *corev1.HTTPGetAction, container *corev1.Container, timeout time.Duration) (result, error) {
	request, err := requestOf(ctx, action, container)
	if err != nil {
		return result{}, err
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // kubelet does not verify either: pods have no certificates for addresses
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaders, ForceAttemptHTTP2: true,
	}
	client := http.Client{Transport: transport, Timeout: timeout, CheckRedirect: staysHere}
	response, err := client.Do(request)
	if err != nil {
		return result{output: err.Error()}, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	switch code := response.StatusCode; {
	case err != nil:
		return result{output: err.Error()}, nil
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return result{healthy: true, warning: true, output: "Probe terminated redirects, Response body: " + string(body)}, nil
	case code >= http.StatusOK && code < http.StatusBadRequest:
		return result{healthy: true}, nil
	default:
		return result{output: fmt.Sprintf("HTTP probe failed with statuscode: %d", code)}, nil
	}
}

// maxRedirects is how many redirects a probe follows.
const maxRedirects = 10

// staysHere follows redirects to the same host only.
func staysHere(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

func requestOf(ctx context.Context, action *corev1.HTTPGetAction, container *corev1.Container) (*http.Request, error) {
	port, err := portOf(action.Port, container)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path}
	}
	if target.Path != "" && !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	target.Scheme, target.Host = "http", net.JoinHostPort(orPod(action.Host), strconv.Itoa(port))
	if action.Scheme == corev1.URISchemeHTTPS {
		target.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	for name, value := range map[string]string{"User-Agent": "kube-probe/1.37", "Accept": "*/*"} {
		if request.Header.Values(name) == nil {
			request.Header.Set(name, value)
		}
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Del("Accept")
	}
	request.Host = request.Header.Get("Host")
	return request, nil
}

func checkTCP(ctx context.Context, address string) result {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return result{output: err.Error()}
	}
	_ = conn.Close()
	return result{healthy: true}
}

// awaitConnection returns when a server answers, or the error of ctx. As with kubelet, a connection
// that is refused is tried again until then.
func awaitConnection(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

func checkGRPC(ctx context.Context, action *corev1.GRPCAction, timeout time.Duration) result {
	address := net.JoinHostPort(podAddress, strconv.Itoa(int(action.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.37"))
	if err != nil {
		return result{output: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	if err := awaitConnection(ctx, conn); err != nil {
		return result{output: fmt.Sprintf("timeout: failed to connect service %q within %s: %s", address, timeout, err)}
	}
	service := ptr.Deref(action.Service, "")
	response, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return result{output: fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())}
	case status.Code(err) == codes.DeadlineExceeded:
		return result{output: fmt.Sprintf("timeout: health rpc did not complete within %s", timeout)}
	case err != nil:
		return result{output: "error: health rpc probe failed: " + err.Error()}
	case response.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return result{output: fmt.Sprintf("service unhealthy (responded with %q)", response.GetStatus())}
	}
	return result{healthy: true}
}
