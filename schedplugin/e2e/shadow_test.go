// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// shadowUser may read everything, and do nothing else.
const shadowUser = "shadow"

var _ = Describe("A shadow of another scheduler", func() {
	It("sees the same devices and the same refusals, and only reads", func(ctx SpecContext) {
		here.allowRival(ctx)
		startAnother(ctx, controlplane.AnotherOptions{Name: rival, Scheduler: controlplane.InTree, Profile: rival, User: rivalUser})
		shadow := here.shadow(ctx)
		here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(4, "h100", "80Gi")...)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addTemplate(ctx, "two", here.gpus(2))
		here.addTemplate(ctx, "five", here.gpus(5))
		for i, template := range []string{"one", "two", "one", "one", "two"} {
			name := fmt.Sprint("pod-", i)
			here.addPod(ctx, name, withTemplate(template), byRival)
			here.expectRunning(ctx, name)
		}
		here.addPod(ctx, "greedy", withTemplate("five"), byRival)
		Eventually(ctx, shadow.metrics).Should(And(
			ContainSubstring(`dray_shadow_pods_total{outcome="same_devices"} 5`),
			ContainSubstring(`dray_shadow_pods_total{outcome="same_refusal"} 1`)))
		Expect(shadow.end()).To(Succeed(), shadow.text)
		Expect(shadow.text()).To(ContainSubstring("6 pods compared in "))
		Expect(shadow.text()).NotTo(ContainSubstring("writes nothing to the API server"), "it did not even try")
		Expect(shadow.text()).NotTo(ContainSubstring("forbidden"))
	})
})

// shadow is the subcommand while it runs.
type shadow struct {
	command *exec.Cmd
	address string
	exited  chan error
	mu      sync.Mutex
	written bytes.Buffer
}

// Write implements io.Writer for what the command prints.
func (s *shadow) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.Write(text)
}

func (s *shadow) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// end interrupts the command, and returns how it ended. A command that has ended stays so.
func (s *shadow) end() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return <-s.exited
}

func (s *shadow) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("%w; it wrote\n%s", err, s.text())
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// shadow starts one for the pods of the rival, and waits until it follows them.
func (a *arena) shadow(ctx context.Context) *shadow {
	GinkgoHelper()
	a.bindRole(ctx, a.addReader(ctx), shadowUser)
	folder := GinkgoT().TempDir()
	text, err := os.ReadFile(filepath.Join(binaries, "scheduler-config.yaml"))
	Expect(err).NotTo(HaveOccurred())
	renamed := strings.Replace(string(text), "schedulerName: default-scheduler", "schedulerName: "+rival, 1)
	Expect(renamed).NotTo(Equal(string(text)))
	config := filepath.Join(folder, "config.yaml")
	Expect(os.WriteFile(config, []byte(renamed), 0o600)).To(Succeed())
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s := &shadow{address: listener.Addr().String(), exited: make(chan error, 1)}
	Expect(listener.Close()).To(Succeed())
	s.command = exec.Command(filepath.Join(binaries, "dray-scheduler"), "shadow", "--settle=1s", //nolint:gosec // our own program
		"--config="+config, "--kubeconfig="+kubeconfigOf(folder, shadowUser), "--metrics-bind-address="+s.address)
	s.command.Stdout, s.command.Stderr = s, s
	Expect(s.command.Start()).To(Succeed())
	go func() { s.exited <- s.command.Wait(); close(s.exited) }()
	DeferCleanup(func() { _ = s.end() })
	Eventually(ctx, s.metrics).Should(ContainSubstring("dray_shadow_pods_total"))
	return s
}

func kubeconfigOf(folder, user string) string {
	GinkgoHelper()
	access, err := plane.ConfigFor(user)
	Expect(err).NotTo(HaveOccurred())
	file := clientcmdapi.NewConfig()
	file.Clusters["it"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	file.AuthInfos["it"] = &clientcmdapi.AuthInfo{ClientCertificateData: access.CertData, ClientKeyData: access.KeyData}
	file.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	file.CurrentContext = "it"
	path := filepath.Join(folder, user+".kubeconfig")
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
	return path
}

// addReader adds a role for reading, and returns its name.
func (a *arena) addReader(ctx context.Context) string {
	GinkgoHelper()
	name := a.name("reader")
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
	return name
}
