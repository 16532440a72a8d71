package benchmarks

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/dray-project/dray/alloctest"
)

//go:embed testdata/worst/*.txt testdata/mended/*.txt
var worstFiles embed.FS

// Worst is a small cluster on which Dray's search was found to take many steps.
type Worst struct {
	// Name is the kind of problem.
	Name string
	Case *alloctest.Case
	// Steps is what it took when it was found or mended, Fits whether there is an allocation.
	Steps int64
	Fits  bool
	// Undecided is set if the default budget was too small, Fails if the answer is an error, of
	// which no steps are known.
	Undecided, Fails bool
}

// WorstCases are what internal/adversary found, see testdata/worst.
func WorstCases() ([]Worst, error) { return casesIn("testdata/worst") }

// MendedCases are what it found before and is easy since, see testdata/mended.
func MendedCases() ([]Worst, error) { return casesIn("testdata/mended") }

func casesIn(folder string) ([]Worst, error) {
	files, err := worstFiles.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("worst cases: %w", err)
	}
	var all []Worst
	for _, file := range files {
		text, err := worstFiles.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, fmt.Errorf("worst case: %w", err)
		}
		w, err := readWorst(file.Name(), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// readWorst reads a scenario file that opens with its steps.
func readWorst(file, text string) (Worst, error) {
	w := Worst{Name: strings.TrimSuffix(file, ".txt")}
	var kind string
	if _, err := fmt.Sscanf(text, "# %s %d steps", &kind, &w.Steps); err != nil {
		return w, fmt.Errorf("worst case %s: first line: %w", file, err)
	}
	scenarios, err := alloctest.Parse(file, text)
	if err != nil {
		return w, fmt.Errorf("worst case: %w", err)
	}
	if len(scenarios) != 1 {
		return w, fmt.Errorf("worst case %s: %d scenarios", file, len(scenarios))
	}
	w.Case = scenarios[0].Case
	w.Undecided = strings.HasPrefix(scenarios[0].Expected, "error on this node")
	w.Fails = !w.Undecided && strings.HasPrefix(scenarios[0].Expected, "error")
	w.Fits = !w.Undecided && !w.Fails && !strings.HasPrefix(scenarios[0].Expected, "unsatisfiable")
	return w, nil
}
