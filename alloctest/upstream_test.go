package alloctest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/peer"
)

// go test -rewrite -run TestUpstream puts the answers of Kubernetes' own allocator
// into the files, except where a scenario says that it differs.
func TestUpstream(t *testing.T) {
	alloctest.Run(t, peer.Upstream(), alloctest.Peer())
}

func TestReadmeExampleIsTrue(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```scenarios\n")
	text, _, _ = strings.Cut(text, "```\n")
	scenarios, err := alloctest.Parse("README.md", text)
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("%d scenarios, error %v", len(scenarios), err)
	}
	for _, s := range scenarios {
		if answer := alloctest.Render(s.Case, peer.Upstream()(t.Context(), s.Case)); answer != s.Expected {
			t.Errorf("%s: got\n%swant\n%s", s.Name, answer, s.Expected)
		}
	}
}
