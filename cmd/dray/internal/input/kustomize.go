package input

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds the kustomization of a folder, as kubectl does.
func (r *reader) kustomize(folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return named(folder, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("kustomize %s: %w", folder, err)
	}
	content, err := resources.AsYaml()
	if err != nil {
		return fmt.Errorf("kustomize %s: %w", folder, err)
	}
	r.readFile("kustomize "+folder, content)
	return nil
}
