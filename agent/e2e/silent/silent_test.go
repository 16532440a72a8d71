package silent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/controlplane"
)

func TestHand(t *testing.T) {
	const bin = "../../../bin"
	programs, err := controlplane.BinariesIn(bin)
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Binaries: programs, APIServerOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client, _ := kubernetes.NewForConfig(plane.Config())
	kcm, err := plane.Launch("kcm", programs.ControllerManager, "--kubeconfig="+plane.Kubeconfig(), "--controllers=node-lifecycle-controller", "--leader-elect=false",
		"--node-monitor-grace-period=15s", "--node-monitor-period=1s", "--secure-port=0")
	if err != nil {
		t.Fatal(err)
	}
	defer kcm.Kill()
	file := filepath.Join(t.TempDir(), "f.yaml")
	os.WriteFile(file, []byte(`nodes:
- name: "n-{index}"
  count: 2
  groups: [{driver: gpu.example.com, name: gpu, count: 1}]
  script:
  - {at: 5s, node: n-1, silent: true}
  - {at: 8s, device: gpu-0, fail: {reason: Ecc}}
  - {at: 40s, node: n-1, ready: true}
`), 0o600)
	sim, err := plane.Launch("sim", filepath.Join(bin, "dray-agent"), "simulate", "--kubeconfig="+plane.Kubeconfig(), "--hardware="+file)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Kill()
	began, last := time.Now(), ""
	for time.Since(began) < 60*time.Second {
		text := ""
		for _, name := range []string{"n-0", "n-1"} {
			node, err := client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					text += fmt.Sprintf("%s Ready=%s(%s) ", name, c.Status, c.Reason)
				}
			}
			for _, taint := range node.Spec.Taints {
				text += taint.Key + ":" + string(taint.Effect) + " "
			}
		}
		slices, _ := client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
		for _, s := range slices.Items {
			for _, d := range s.Spec.Devices {
				text += fmt.Sprintf("%s/%s:%d ", s.Spec.Pool.Name, d.Name, len(d.Taints))
			}
		}
		if text != last {
			t.Logf("%5.1fs %s", time.Since(began).Seconds(), text)
			last = text
		}
		time.Sleep(200 * time.Millisecond)
	}
}
