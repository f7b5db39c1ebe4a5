package work

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
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

// NewDefinitions makes them.
func NewDefinitions(client *kube.Client, releases *helm.Client, options kube.CRDOptions) *Definitions {
	return &Definitions{client: client, releases: releases, options: options}
}

// EnsureCRDs implements CRDs. Definitions of modules come after those of subcharts: of two with one name the last one
// counts (M1).
func (d *Definitions) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	var own, brought []kube.CRDFile
	var errs []error
	sums := map[string][sha256.Size]byte{}
	for _, m := range modules {
		files, err := ownCRDs(m)
		own, errs = append(own, files...), append(errs, err)
		files, sums[m.Name] = d.subcharts(m)
		brought = append(brought, files...)
	}
	written, err = d.ensure(ctx, append(brought, own...), sums)
	return written, errors.Join(append(errs, err)...)
}

// CheckCRDs implements CRDs.
func (d *Definitions) CheckCRDs(m helm.Module) error {
	files, err := ownCRDs(m)
	return errors.Join(err, kube.CheckCRDs(d.options, files))
}

// EnsureSubcharts implements CRDs.
func (d *Definitions) EnsureSubcharts(ctx context.Context, m helm.Module) error {
	files, sum := d.subcharts(m)
	if known, _ := d.ensured.Load(m.Name); known == sum || len(files) == 0 {
		return nil
	}
	_, err := d.ensure(ctx, files, map[string][sha256.Size]byte{m.Name: sum})
	return err
}

// ensure installs definitions and lets Helm see their kinds (M6), also after a failure: some may
// have been written. What has failed is not noted, so the next call tries it again.
func (d *Definitions) ensure(ctx context.Context, files []kube.CRDFile, sums map[string][sha256.Size]byte) (written map[string]string, err error) {
	written, err = d.client.EnsureCRDs(ctx, d.options, files)
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

// ownCRDs are the files in crds/ of a module.
func ownCRDs(m helm.Module) (files []kube.CRDFile, err error) {
	found, err := charts.Definitions(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read CRDs of %s: %w", m.Shows(charts.Root(m.Dir)), err)
	}
	return shownIn(m, found), nil
}

// shownIn are files of the chart of a module as messages name them.
func shownIn(m helm.Module, found []charts.File) (files []kube.CRDFile) {
	for _, f := range found {
		files = append(files, kube.CRDFile{Name: m.Shows(filepath.Join(charts.Root(m.Dir), f.Name)), Data: f.Data})
	}
	return files
}

// subcharts are the definitions of the subcharts that the values of a module enable. The checksum
// covers names and lengths, so that no two lists of files have the same.
func (d *Definitions) subcharts(m helm.Module) (files []kube.CRDFile, sum [sha256.Size]byte) {
	all := sha256.New()
	found := d.releases.SubchartCRDs(m)
	for _, f := range found {
		fmt.Fprintf(all, "%s\x00%d\x00%s", f.Name, len(f.Data), f.Data)
	}
	all.Sum(sum[:0])
	return shownIn(m, found), sum
}
