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
	"addon-operator/helm/manifest"
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
	var own, brought []kube.CRD
	var errs []error
	sums := map[string][sha256.Size]byte{}
	for _, m := range modules {
		found, err := d.own(m)
		own, errs = append(own, found...), append(errs, err)
		files, sum := d.subcharts(m)
		found, err = d.read(m, files)
		brought, errs = append(brought, found...), append(errs, err)
		if err == nil {
			sums[m.Name] = sum
		}
	}
	written, err = d.ensure(ctx, append(brought, own...), sums)
	return written, errors.Join(append(errs, err)...)
}

// CheckCRDs implements CRDs.
func (d *Definitions) CheckCRDs(m helm.Module) error {
	_, err := d.own(m)
	return err
}

// EnsureSubcharts implements CRDs.
func (d *Definitions) EnsureSubcharts(ctx context.Context, m helm.Module) error {
	files, sum := d.subcharts(m)
	if known, _ := d.ensured.Load(m.Name); known == sum || len(files) == 0 {
		return nil
	}
	found, wrong := d.read(m, files)
	sums := map[string][sha256.Size]byte{m.Name: sum}
	if wrong != nil {
		sums = nil
	}
	_, err := d.ensure(ctx, found, sums)
	return errors.Join(wrong, err)
}

// ensure installs definitions and lets Helm see their kinds (M6), also after a failure: some may
// have been written. What has failed is not noted, so the next call tries it again.
func (d *Definitions) ensure(ctx context.Context, found []kube.CRD, sums map[string][sha256.Size]byte) (written map[string]string, err error) {
	written, err = d.client.EnsureCRDs(ctx, d.options, found)
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

// own are the definitions in crds/ of a module.
func (d *Definitions) own(m helm.Module) ([]kube.CRD, error) {
	files, err := charts.Definitions(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read CRDs of %s: %w", m.Shows(charts.Root(m.Dir)), err)
	}
	return d.read(m, files)
}

// read reads files of the chart of a module. All errors are returned together; nothing of a file with an error is used.
func (d *Definitions) read(m helm.Module, files []charts.File) (all []kube.CRD, err error) {
	var errs []error
	for _, f := range files {
		if d.options.Skips(f.Name) {
			continue
		}
		name := m.Shows(filepath.Join(charts.Root(m.Dir), f.Name))
		objects, err := manifest.Parse(string(f.Data))
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		var found []kube.CRD
		for _, object := range objects {
			found = append(found, kube.CRD{File: name, Object: object})
		}
		if err = errors.Join(err, kube.CheckCRDs(found)); err != nil {
			errs = append(errs, fmt.Errorf("read CRDs: %w", err))
			continue
		}
		all = append(all, found...)
	}
	return all, errors.Join(errs...)
}

// subcharts are the files of definitions of the subcharts that the values of a module enable. The checksum
// covers names and lengths, so that no two lists of files have the same.
func (d *Definitions) subcharts(m helm.Module) (files []charts.File, sum [sha256.Size]byte) {
	all := sha256.New()
	files = d.releases.SubchartCRDs(m)
	for _, f := range files {
		fmt.Fprintf(all, "%s\x00%d\x00%s", f.Name, len(f.Data), f.Data)
	}
	all.Sum(sum[:0])
	return files, sum
}
