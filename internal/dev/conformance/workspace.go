package conformance

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// layOut writes the module of a part to folder: the adapter, and a go.mod that requires what
// Dray's requires, so that the counterpart has the version that Dray is built with.
func layOut(ctx context.Context, part Part, checkout, folder string) error {
	goMod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return err
	}
	_, requirements, found := strings.Cut(string(goMod), "\n")
	if !found {
		return fmt.Errorf("%s: a module line and nothing else", filepath.Join(checkout, "go.mod"))
	}
	text := "module " + path.Join(part.Counterpart, part.below) + "\n" + requirements
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(checkout, "go.sum"), filepath.Join(folder, "go.sum")); err != nil {
		return err
	}
	files, err := fs.Sub(adapters, path.Join("testdata", part.adapter))
	if err != nil {
		return err
	}
	if err := os.CopyFS(folder, files); err != nil {
		return err
	}
	edit := exec.CommandContext(ctx, "go", "mod", "edit",
		"-require=github.com/dray-project/dray@v0.0.0", "-replace=github.com/dray-project/dray="+checkout)
	edit.Dir = folder
	if output, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod edit: %w\n%s", err, output)
	}
	return nil
}

// version returns the version of the counterpart that the module in folder is built with.
func version(ctx context.Context, part Part, folder string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-m", "-f", "{{.Version}}", part.Counterpart)
	list.Dir = folder
	output, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", part.Counterpart, err)
	}
	return strings.TrimSpace(string(output)), nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}
