package schedplugin

import (
	"os"
	"testing"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	os.Exit(m.Run())
}
