// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/install"
)

// installation is a scheduler that runs as its manifests say: with the arguments of the
// Deployment, the configuration of the ConfigMap, and a token of the ServiceAccount. Only
// the container is missing, and what the kubelet would mount into it.
type installation struct {
	t        *testing.T // the test that ends last
	objects  []*unstructured.Unstructured
	client   kubernetes.Interface // the administrator's
	recorder *install.Recorder
	folder   string
	port     int // of the scheduler that was started last
	running  *exec.Cmd
}

func newInstallation(t *testing.T, plane *controlplane.ControlPlane, client kubernetes.Interface, variant string) *installation {
	t.Helper()
	i := &installation{
		t: t, objects: rendered(t, variant), client: client, recorder: record(t, plane),
		folder: t.TempDir(),
	}
	a, err := install.NewApplier(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range i.objects {
		if err := a.Apply(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// record starts a recorder.
func record(t *testing.T, plane *controlplane.ControlPlane) *install.Recorder {
	t.Helper()
	r, err := install.Record(plane)
	if err != nil {
		t.Fatal(err)
	}
	r.Implied = func(p install.Permission) []install.Permission {
		if p.Resource != "resourceclaims/status" {
			return nil
		}
		// All that a scheduler changes there is allocation and reservedFor.
		p.Resource = "resourceclaims/binding"
		return []install.Permission{p}
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// start starts a scheduler, with further features.
func (i *installation) start(features ...string) {
	t := i.t
	t.Helper()
	i.port = freePort(t)
	arguments := i.arguments(t, features)
	log, err := os.Create(filepath.Join(i.folder, fmt.Sprintf("scheduler-%d.log", time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.quote(t, log) })
	program, err := filepath.Abs(filepath.Join(binaries, "dray-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	scheduler := exec.Command(program, arguments...)
	scheduler.Dir, scheduler.Stdout, scheduler.Stderr = i.folder, log, log
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	i.running = scheduler
	t.Cleanup(func() { end(t, scheduler) })
}

// end asks a scheduler to end, and waits for it.
func end(t *testing.T, scheduler *exec.Cmd) {
	t.Helper()
	if scheduler.ProcessState != nil {
		return
	}
	if err := scheduler.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	// It ends with an error: its lease is lost.
	_ = scheduler.Wait()
}

// healthy makes the requests of the container's probes, as the kubelet does: without
// credentials, and whoever signed the certificate.
func (i *installation) healthy() error {
	container := as[appsv1.Deployment](i.t, i.objects, "Deployment").Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		answer, err := i.get(strings.ToLower(string(probe.HTTPGet.Scheme)), probe.HTTPGet.Path, "")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(answer, "200") {
			return fmt.Errorf("%s: %s", probe.HTTPGet.Path, answer)
		}
	}
	return nil
}

// get is the status and the body of a response of the scheduler that was started last.
func (i *installation) get(scheme, path, token string) (string, error) {
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, i.port, path), nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// The scheduler makes its certificate itself, when it starts.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.Status + "\n" + string(body), err
}

// quote adds the end of a log to the output of a test that has failed.
func (i *installation) quote(t *testing.T, log *os.File) {
	text, err := os.ReadFile(log.Name())
	if err := errors.Join(err, log.Close()); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("the log ends with\n%s", text[max(0, len(text)-16000):])
	}
}

// arguments are the container's, but for what differs outside of it.
func (i *installation) arguments(t *testing.T, features []string) []string {
	t.Helper()
	container := as[appsv1.Deployment](t, i.objects, "Deployment").Spec.Template.Spec.Containers[0]
	mount := container.VolumeMounts[0].MountPath
	kubeconfig := i.writeKubeconfig(t)
	i.writeConfiguration(t, kubeconfig)
	var arguments []string
	for _, argument := range container.Args {
		arguments = append(arguments, strings.Replace(argument, mount, i.folder, 1))
	}
	for _, gate := range slices.Sorted(maps.Keys(controlplane.DeviceFeatures())) {
		features = append(features, gate+"=true")
	}
	return append(arguments,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(i.port),
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--feature-gates="+strings.Join(features, ","),
	)
}

// writeConfiguration writes the files of the ConfigMap, as mounted.
func (i *installation) writeConfiguration(t *testing.T, kubeconfig string) {
	t.Helper()
	for name, text := range as[corev1.ConfigMap](t, i.objects, "ConfigMap").Data {
		var config map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		// A pod finds the API server by itself.
		config["clientConnection"].(map[string]any)["kubeconfig"] = kubeconfig
		config["podMaxBackoffSeconds"] = 1
		edited, err := yaml.Marshal(config)
		if err == nil {
			err = os.WriteFile(filepath.Join(i.folder, name), edited, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeKubeconfig writes how the ServiceAccount reaches the API server, by way of the
// recorder.
func (i *installation) writeKubeconfig(t *testing.T) string {
	t.Helper()
	account := as[corev1.ServiceAccount](t, i.objects, "ServiceAccount")
	path := filepath.Join(i.folder, "kubeconfig")
	if err := i.recorder.WriteKubeconfig(path, i.token(t, account.Namespace, account.Name)); err != nil {
		t.Fatal(err)
	}
	return path
}

func (i *installation) token(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := install.Token(t.Context(), i.client, namespace, account, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// allowed is what all rules together allow that the ServiceAccount is bound to by the
// manifests, by whether the rule is theirs.
func (i *installation) allowed(t *testing.T) (own, foreign []install.Permission) {
	t.Helper()
	own = install.Granted(as[rbacv1.ClusterRole](t, i.objects, "ClusterRole").Rules...)
	own = append(own, install.Granted(as[rbacv1.Role](t, i.objects, "Role").Rules...)...)
	for _, object := range i.objects {
		if object.GetKind() != "RoleBinding" {
			continue
		}
		binding := as[rbacv1.RoleBinding](t, []*unstructured.Unstructured{object}, "RoleBinding")
		role, err := i.client.RbacV1().Roles(binding.Namespace).Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if role.Labels["app.kubernetes.io/name"] == "" {
			foreign = append(foreign, install.Granted(role.Rules...)...)
		}
	}
	return own, foreign
}
