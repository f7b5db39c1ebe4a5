package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// soakDisk are the faults that are changes of files, which the operator of the soak watches (P8).
func soakDisk() []soakFault {
	return []soakFault{
		{"disk: a template edited", 4, (*soak).editTemplate},
		{"disk: a template written by halves", 3, (*soak).writeByHalves},
		{"disk: a file broken …", 6, (*soak).breakFile},
		{"disk: another tree behind the link, and back …", 5, (*soak).flipTree},
	}
}

const soakTemplate = "all-modules/040-naughty/templates/all.yaml"

// template is that of naughty in an edition, which its object shows.
func (m *soakModel) template(edition int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: naughty}\ndata:\n  zone: {{ .Values.global.zone | quote }}\n  edition: \"%d\"\n", edition)
}

// nextEdition is in force when the faults have ended.
func (m *soakModel) nextEdition() (template string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.edition++
	return m.template(m.edition)
}

func (s *soak) editTemplate(*rand.Rand) { s.write(soakTemplate, s.model.nextEdition()) }

// writeByHalves leaves half of a file for longer than a change is waited out.
func (s *soak) writeByHalves(draw *rand.Rand) {
	text := s.model.nextEdition()
	s.write(soakTemplate, text[:draw.IntN(len(text))])
	s.pause(time.Duration(draw.IntN(600)) * time.Millisecond)
	s.write(soakTemplate, text)
}

// breakFile breaks a file for a while. No release may go because of that.
func (s *soak) breakFile(draw *rand.Rand) {
	all := [][2]string{
		{"010-plain/openapi/config-values.yaml", "type: [\n"},
		{"010-plain/values.yaml", "plain: {size: [\n"},
		{"030-watch/hooks/more.sh", "#!/there/is/no/such/interpreter\n"},
		{"040-naughty/hooks/often.sh", "#!/usr/bin/env bash\necho '{configVersion: v1, beforeHelmet: 1}'\n"},
		{"060-wide/templates/all.yaml", "{{ range .Values"},
		{"070-safe/Chart.yaml", "name: ["},
		{"080-guarded/values.yaml", "- guarded\n"},
		{"values.yaml", "global: {"},
	}
	one := all[draw.IntN(len(all))]
	path := "all-modules/" + one[0]
	whole, err := os.ReadFile(s.path(path))
	before := s.releases()
	s.note("%s is broken", path)
	s.write(path, one[1])
	s.pause(time.Duration(100+draw.IntN(1500)) * time.Millisecond)
	after := s.releases()
	if err != nil {
		s.remove(path)
	} else {
		s.write(path, string(whole))
	}
	s.count("disk: a file broken", 1)
	s.expectReleases(before, after, path+" was broken")
}

// expectReleases says that no release went which is wanted.
func (s *soak) expectReleases(before, after map[string]bool, while string) {
	if before == nil || after == nil {
		return // the API server is away
	}
	for _, name := range s.model.enabled() {
		if before[name] && !after[name] && !s.model.wasSwitched(name) {
			s.violated("the release of %s went while %s", name, while)
		}
	}
}

// flipTree points the link at a whole other tree, as git-sync does, and back: to what was there, or after that has
// got the same.
func (s *soak) flipTree(draw *rand.Rand) {
	template := s.model.template(1_000_000 + draw.IntN(1000))
	s.remove("other-modules")
	if err := os.CopyFS(s.path("other-modules"), os.DirFS(s.path("all-modules"))); err != nil {
		s.t.Error(err)
		return
	}
	s.write(strings.Replace(soakTemplate, "all-", "other-", 1), template)
	before := s.releases()
	s.pointModules("other-modules")
	s.pause(time.Duration(100+draw.IntN(1500)) * time.Millisecond)
	if draw.IntN(2) == 0 {
		s.editTemplate(draw)
	}
	s.restoreModules()
	s.count("disk: another tree behind the link, and back", 1)
	s.expectReleases(before, s.releases(), "another tree was behind the link")
}
