package adversary

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/internal/peer"
)

// keptCases is how many cases of different kinds are kept.
const keptCases = 10

// Worst holds the worst cases found so far, one of each kind, in a folder of scenario
// files.
type Worst struct {
	folder string
	found  []Found // by steps, most first
}

// kindTags are the features that tell kinds of cases apart.
var kindTags = []clustergen.Tag{
	"prioritized list", "match attribute", "distinct attribute", "list attributes", "partitionable devices",
	"compatibility groups", "consumable capacity", "all devices", "admin access",
}

// Kind names the features of a case on which its difficulty may rest.
func Kind(c *alloctest.Case) string {
	var parts []string
	for _, tag := range clustergen.Tags(c) {
		if slices.Contains(kindTags, tag) {
			parts = append(parts, strings.Fields(string(tag))[0])
		}
	}
	if len(parts) == 0 {
		return "plain"
	}
	return strings.Join(parts, "-")
}

// Open reads the cases of a folder, which need not exist, and measures them anew.
func Open(ctx context.Context, folder string, meter *peer.Meter) (*Worst, error) {
	w := &Worst{folder: folder}
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("recorded case: %w", err)
		}
		scenarios, err := alloctest.Parse(file, string(text))
		if err != nil {
			return nil, fmt.Errorf("recorded case: %w", err)
		}
		for _, s := range scenarios {
			m, err := Measure(ctx, meter, s.Case)
			if err != nil {
				return nil, err
			}
			if m.Class != differential.Failed {
				w.insert(Found{s.Case, m})
			}
		}
	}
	return w, nil
}

// All returns the cases, worst first.
func (w *Worst) All() []Found { return slices.Clone(w.found) }

// Wants tells whether a case might be among the worst, even if made a little easier.
func (w *Worst) Wants(f Found) bool {
	return len(w.found) < keptCases || f.Steps > w.found[len(w.found)-1].Steps ||
		slices.ContainsFunc(w.found, func(other Found) bool { return Kind(other.Case) == Kind(f.Case) && f.Steps > other.Steps })
}

// Add keeps a case if it is worse than the one of its kind and one of the worst. The
// files follow.
func (w *Worst) Add(f Found) error {
	if !w.insert(f) {
		return nil
	}
	return w.Write()
}

func (w *Worst) insert(f Found) bool {
	kind := Kind(f.Case)
	if i := slices.IndexFunc(w.found, func(other Found) bool { return Kind(other.Case) == kind }); i >= 0 {
		if w.found[i].Steps >= f.Steps {
			return false
		}
		w.found = slices.Delete(w.found, i, i+1)
	}
	w.found = append(w.found, f)
	slices.SortStableFunc(w.found, func(a, b Found) int { return cmp.Compare(b.Steps, a.Steps) })
	if len(w.found) > keptCases {
		dropped := Kind(w.found[keptCases].Case) == kind
		w.found = w.found[:keptCases]
		return !dropped
	}
	return true
}

// Write replaces the files of the folder.
func (w *Worst) Write() error {
	files, err := filepath.Glob(filepath.Join(w.folder, "*.txt"))
	if err != nil {
		return fmt.Errorf("folder %s: %w", w.folder, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("recorded case: %w", err)
		}
	}
	if err := os.MkdirAll(w.folder, 0o755); err != nil {
		return fmt.Errorf("folder of recorded cases: %w", err)
	}
	for _, f := range w.found {
		if err := w.writeCase(f); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worst) writeCase(f Found) error {
	text, err := alloctest.Format(f.Case, peer.Dray()(context.Background(), f.Case))
	if err != nil {
		return fmt.Errorf("case %s: %w", f.Case.Name, err)
	}
	text = fmt.Sprintf("# %s: %d steps, %s.\n\n", Kind(f.Case), f.Steps, f.Class) + text
	if err := os.WriteFile(filepath.Join(w.folder, Kind(f.Case)+".txt"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("recorded case: %w", err)
	}
	return nil
}
