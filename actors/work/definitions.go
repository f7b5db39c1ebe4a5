package work

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/kube"
)

// Definitions are the CRDs that modules bring: those in crds/ of a module, and in crds/ of the
// subcharts of its chart that its values enable. Helm looks for their kinds afterwards.
type Definitions struct {
	client   *kube.Client
	releases *helm.Client
	options  kube.CRDOptions

	// ensured has by module the checksum of what its subcharts brought when that was last
	// installed, so that EnsureSubcharts, which each run calls, asks the API server only when
	// values enable another subchart. Runs of several modules use it at the same time.
	ensured sync.Map
}

// NewDefinitions makes them. What .helmignore of a chart names is no definition.
func NewDefinitions(client *kube.Client, releases *helm.Client, options kube.CRDOptions) *Definitions {
	options.Ignored = charts.Ignored
	return &Definitions{client: client, releases: releases, options: options}
}

// EnsureCRDs implements CRDs.
func (d *Definitions) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	var dirs []string
	var files []kube.CRDFile
	sums := map[string][sha256.Size]byte{}
	for _, m := range modules {
		dirs = append(dirs, charts.Root(m.Dir))
		found, sum := d.subcharts(m)
		files, sums[m.Name] = append(files, found...), sum
	}
	return d.ensure(ctx, files, dirs, sums, modules...)
}

// CheckCRDs implements CRDs.
func (d *Definitions) CheckCRDs(m helm.Module) error {
	return kube.CheckCRDs(d.optionsFor(m), charts.Root(m.Dir))
}

// EnsureSubcharts implements CRDs.
func (d *Definitions) EnsureSubcharts(ctx context.Context, m helm.Module) error {
	files, sum := d.subcharts(m)
	if known, _ := d.ensured.Load(m.Name); known == sum || len(files) == 0 {
		return nil
	}
	_, err := d.ensure(ctx, files, nil, map[string][sha256.Size]byte{m.Name: sum}, m)
	return err
}

// ensure installs definitions and lets Helm see their kinds (M6), also after a failure: some may
// have been written. What has failed is not noted, so the next call tries it again.
func (d *Definitions) ensure(ctx context.Context, files []kube.CRDFile, dirs []string, sums map[string][sha256.Size]byte, modules ...helm.Module) (written map[string]string, err error) {
	options := d.optionsFor(modules...)
	options.Subcharts = files
	written, err = d.client.EnsureCRDs(ctx, options, dirs...)
	if len(written) > 0 {
		d.releases.ResetDiscovery()
	}
	if err != nil {
		return written, err
	}
	for module, sum := range sums {
		d.ensured.Store(module, sum)
	}
	return written, nil
}

// optionsFor are the options for the files of some modules, which messages name as the modules do.
func (d *Definitions) optionsFor(modules ...helm.Module) kube.CRDOptions {
	options := d.options
	options.Shown = func(path string) string {
		for _, m := range modules {
			if strings.HasPrefix(path, m.Dir+string(filepath.Separator)) {
				return m.Shows(path)
			}
		}
		return path
	}
	return options
}

// subcharts are the definitions of the subcharts that the values of a module enable. The checksum
// covers names and lengths, so that no two lists of files have the same.
func (d *Definitions) subcharts(m helm.Module) (files []kube.CRDFile, sum [sha256.Size]byte) {
	all := sha256.New()
	for _, f := range d.releases.SubchartCRDs(m) {
		files = append(files, kube.CRDFile{Name: m.Shows(filepath.Join(charts.Root(m.Dir), f.Name)), Data: f.Data})
		fmt.Fprintf(all, "%s\x00%d\x00%s", f.Name, len(f.Data), f.Data)
	}
	all.Sum(sum[:0])
	return files, sum
}
