# A release, by tools that others maintain: GNU tar and gzip, cyclonedx-gomod, go-licenses. Files in archives have the time of
# the commit, no owner and a fixed order: the same commit and the same versions of these tools give the same bytes.

# What it is built for, the repository of its image, and the URL below which its archives will be.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
IMAGE     ?= addon-operator
DOWNLOADS ?= https://example.com/addon-operator/releases/download
DIST      ?= dist
# Licences that allow passing the program on with their texts. A person who has read another one adds it.
ACCEPTED  := 0BSD,Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0,Unlicense
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),-dirty)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

MAKING     = bin/release
NAME       = addon-operator_$(VERSION)
LINKED     = -s -w -buildid= -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$$(date -u -d @$(SOURCE_DATE_EPOCH) +%FT%TZ)
COMPILE    = GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOWORK=off GOFIPS140=off go build -ldflags "$(LINKED)" -o
PACK       = tar --sort=name --format=ustar --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w -C
TEXTS      = -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|unlicense\|notice\)\([.-].*\)?' ! -iname '*docs' -print0

.PHONY: release
release: ## dist/ with all of VERSION=v0.1.0: archives for PLATFORMS, chart, manifests, completions, bills of materials, sums
	@fail() { echo "release: $$*" >&2; exit 1; }
	[[ '$(VERSION)' =~ ^v(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?$$ ]] || fail 'VERSION is "$(VERSION)": write one such as v0.1.0'
	[[ '$(SOURCE_DATE_EPOCH)' =~ ^[0-9]+$$ ]] || fail 'git reports no time of the commit: set SOURCE_DATE_EPOCH to seconds since 1970'
	[ ! -e '$(DIST)' ] || [ -e '$(DIST)/SHA256SUMS' ] || fail '$(DIST) has no SHA256SUMS, so it is not a release and is not replaced'
	rm -rf $(MAKING); mkdir -p $(MAKING)/{dist,completions,chart}; bare='$(VERSION:v%=%)'
	sed 's/VERSION/$(VERSION)/' deploy/krew.yaml >$(MAKING)/dist/addon.yaml
	for platform in $(PLATFORMS); do $(MAKE) --no-print-directory "release/$$platform"; done
	$(COMPILE) $(MAKING)/here ./cmd/addon-operator
	for shell in bash fish powershell zsh; do $(MAKING)/here completion $$shell >$(MAKING)/completions/addon-operator.$$shell; done
	cp -R deploy/chart $(MAKING)/chart/addon-operator; cp -R deploy/manifests $(MAKING)/
	find $(MAKING)/chart $(MAKING)/manifests -name '*.yaml' ! -path '*/templates/*' -exec sed -E -i "s,^(appV|v)ersion: .*,\1ersion: $$bare,; s,^(  repository:) addon-operator$$,\1 $(IMAGE),
	  s,\"addon-operator:[0-9.]+\",\"$(IMAGE):$$bare\",; s,(kubernetes.io/version: \")[0-9.]+,\1$$bare,; s,(helm.sh/chart: addon-operator-)[0-9.]+,\1$$bare," {} +
	export LC_ALL=C; $(PACK) $(MAKING)/chart -c addon-operator | gzip -9n >$(MAKING)/dist/addon-operator-$$bare.tgz
	for part in completions manifests; do $(PACK) $(MAKING)/$$part -c $$(ls $(MAKING)/$$part) | gzip -9n >$(MAKING)/dist/$(NAME)_$$part.tar.gz; done
	(cd $(MAKING)/dist; sha256sum * >SHA256SUMS); rm -rf '$(DIST)'; mv $(MAKING)/dist '$(DIST)'
	echo 'release: $(VERSION) of commit $(or $(COMMIT),unknown) is in $(DIST)'

# One platform, as release/linux/amd64: the archive, its bill of materials, and its entry for krew.
release/%: program = $(NAME)_$(*D)_$(*F)
release/%: licenses/% bin/cyclonedx-gomod
	@export GOOS=$(*D) GOARCH=$(*F) LC_ALL=C; echo "release: building $*"; mkdir $(MAKING)/$(program)
	$(COMPILE) $(MAKING)/$(program)/ ./cmd/addon-operator; cp LICENSE $(MAKING)/$(program)/
	{ go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/addon-operator | sort -u; go env GOVERSION GOROOT | paste -sd ' ' | sed 's/^/std /'; } |
	  while read -r module version dir; do printf '\n== %s %s\n\n' "$$module" "$$version"; find "$$dir/" $(TEXTS) | sort -z | xargs -0 cat; done >$(MAKING)/$(program)/THIRD-PARTY-LICENSES.txt
	$(PACK) $(MAKING)/$(program) -c LICENSE THIRD-PARTY-LICENSES.txt addon-operator | gzip -9n >$(MAKING)/dist/$(program).tar.gz
	bin/cyclonedx-gomod bin -json -noserial -notimestamp -std -version $(VERSION) -output $(MAKING)/dist/$(program).cdx.json $(MAKING)/$(program)/addon-operator
	printf '  - selector: {matchLabels: {os: %s, arch: %s}}\n    uri: %s\n    sha256: %s\n    bin: addon-operator\n' $(*D) $(*F) '$(DOWNLOADS)/$(VERSION)/$(program).tar.gz' \
	  "$$(sha256sum $(MAKING)/dist/$(program).tar.gz | cut -d ' ' -f 1)" >>$(MAKING)/dist/addon.yaml

# go-licenses takes what is below GOROOT for the standard library, and is compiled without one.
licenses licenses/%: export GOROOT = $(shell go env GOROOT)
licenses/%: bin/go-licenses
	@GOOS=$(*D) GOARCH=$(*F) bin/go-licenses check ./cmd/addon-operator --allowed_licenses=$(ACCEPTED) 2>&1 | { grep -v -e ^W -e ^/ >&2 || true; }

.PHONY: licenses
licenses: $(PLATFORMS:%=licenses/%) ## the licences of all modules in the program; fails when one is unknown or not accepted
	@for platform in $(PLATFORMS); do GOOS=$${platform%/*} GOARCH=$${platform#*/} bin/go-licenses report ./cmd/addon-operator 2>/dev/null; done | cut -d , -f 1,3 | sort -u
