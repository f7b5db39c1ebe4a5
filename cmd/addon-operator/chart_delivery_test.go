package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Deliveries of the chart, as people write them in values.
const (
	deliverVolume = "modules: {source: artifact, artifact: {reference: example.com/modules@sha256:abc, path: prod, mount: volume}}"
	deliverCopy   = "modules: {source: artifact, artifact: {reference: example.com/modules:v1, path: prod, mount: copy}}"
	deliverGit    = "modules: {source: git, git: {repository: git@example.com:ours/modules.git, ref: prod, path: a/b, auth: ssh, secret: git}}"
	deliverBasic  = "modules: {source: git, watch: false, git: {repository: 'https://example.com/modules.git', auth: basic, secret: git}}"
)

// Modules come from where the values say: the operator looks there, cannot write there, and what brings them is as restricted as it is.
func TestDelivery(t *testing.T) {
	for name, c := range map[string]struct {
		values, dir, watch string
		volume             func(corev1.VolumeSource) bool
		init, containers   []string
	}{
		"image": {values: "", init: nil, containers: []string{"operator"}},
		"volume": {deliverVolume, "/delivered/prod", "", func(v corev1.VolumeSource) bool {
			return v.Image != nil && v.Image.Reference == "example.com/modules@sha256:abc"
		}, nil, []string{"operator"}},
		"copy":                              {deliverCopy, "/delivered", "", func(v corev1.VolumeSource) bool { return v.EmptyDir != nil }, []string{"modules"}, []string{"operator"}},
		"auto, before image volumes are on": {strings.Replace(deliverCopy, "copy", "auto", 1), "/delivered", "", func(v corev1.VolumeSource) bool { return v.EmptyDir != nil }, []string{"modules"}, []string{"operator"}},
		"git":                               {deliverGit, "/delivered/current/a/b", "true", func(v corev1.VolumeSource) bool { return v.EmptyDir != nil }, []string{"git-clone"}, []string{"operator", "git-sync"}},
		"basic":                             {deliverBasic, "/delivered/current", "", func(v corev1.VolumeSource) bool { return v.EmptyDir != nil }, []string{"git-clone"}, []string{"operator", "git-sync"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := deployment(t, c.values).Spec.Template.Spec
			operator := pod.Containers[0]
			if got := envOf(operator, "ADDON_OPERATOR_WORKING_DIR"); got != c.dir {
				t.Errorf("the operator looks in %q, want %q", got, c.dir)
			}
			if got := envOf(operator, "ADDON_OPERATOR_WATCH_MODULES"); got != c.watch {
				t.Errorf("the watch is %q, want %q", got, c.watch)
			}
			for _, m := range operator.VolumeMounts {
				if m.Name == "delivered" && !m.ReadOnly {
					t.Error("the operator can write to the modules")
				}
			}
			at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "delivered" })
			if c.volume != nil && (at < 0 || !c.volume(pod.Volumes[at].VolumeSource)) || c.volume == nil && at >= 0 {
				t.Errorf("volumes are %+v", pod.Volumes)
			}
			if got := containerNames(pod.InitContainers); !slices.Equal(got, c.init) {
				t.Errorf("init containers are %q, want %q", got, c.init)
			}
			if got := containerNames(pod.Containers); !slices.Equal(got, c.containers) {
				t.Errorf("containers are %q, want %q", got, c.containers)
			}
			for _, one := range slices.Concat(pod.InitContainers, pod.Containers) {
				security := one.SecurityContext
				if security == nil || !*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation || one.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s is not restricted", one.Name)
				}
			}
		})
	}
	text := rendered(t, deliverCopy)["deployment.yaml"]
	if !strings.Contains(text, "command: [cp, -R, /prod/modules, /prod/global-hooks, /delivered/]") {
		t.Errorf("the copy is\n%s", text)
	}
}

func envOf(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func containerNames(all []corev1.Container) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// What cannot be meant is refused with what to write instead.
func TestDeliveryRefuses(t *testing.T) {
	for values, says := range map[string]string{
		"modules: {source: oci}":                                                                              "source",
		"modules: {source: artifact}":                                                                         "set modules.artifact.reference",
		"modules: {source: git}":                                                                              "set modules.git.repository",
		"modules: {artifact: {reference: a/b}}":                                                               "modules.source is image: set it to artifact",
		"modules: {git: {repository: 'https://a/b'}}":                                                         "modules.source is image: set it to git",
		"modules: {source: artifact, artifact: {reference: a/b, path: /abs}}":                                 "path",
		"modules: {source: git, git: {repository: 'https://a/b', auth: ssh}}":                                 "set modules.git.secret",
		"modules: {source: git, git: {repository: 'https://a/b', secret: s}}":                                 "set it to basic or ssh",
		"modules: {source: git, git: {repository: 'a b'}}":                                                    "repository",
		"modules: {source: artifact, artifact: {reference: a/b}}\noptions: {MODULES_DIR: /m}":                 "options.MODULES_DIR and modules.source artifact are mutually exclusive",
		"modules: {source: git, git: {repository: 'https://a/b'}}\noptions: {ADDON_OPERATOR_WORKING_DIR: /m}": "are mutually exclusive",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want it to name %s", values, err, says)
		}
	}
}
