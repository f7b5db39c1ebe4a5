package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// writeBills writes a bill of materials for each program: the modules that the linker has recorded in it, with their
// licences, and the version of Go.
func (r release) writeBills(programs []binary, licences []licence) error {
	of := map[string]licence{}
	for _, l := range licences {
		of[l.module] = l
	}
	for _, p := range programs {
		data, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := json.Write(r.bill(p, fmt.Sprintf("%x", sha256.Sum256(data)), of), &text, json.Indent("  ")); err != nil {
			return err
		}
		if err := r.write(r.name(p.platform)+".spdx.json", text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

const noAssertion = "NOASSERTION"

func (r release) bill(p binary, sum string, of map[string]licence) *spdx.Document {
	const documentID, programID = "DOCUMENT", "Package-" + program
	name := r.name(p.platform)
	whole := newPackage(programID, program, r.version, licence{ids: []string{"Apache-2.0"}})
	whole.PrimaryPackagePurpose = "APPLICATION"
	whole.PackageFileName = program
	whole.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	if r.commit != "" {
		whole.PackageSourceInfo = "built from commit " + r.commit
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: documentID, DocumentName: name,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + sum,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.date.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: program + "-release"}},
		},
		Packages:      []*spdx.Package{whole},
		Relationships: []*spdx.Relationship{relation(documentID, common.TypeRelationshipDescribe, programID)},
	}
	for _, m := range append([]*debug.Module{{Path: standardLibrary, Version: p.info.GoVersion}}, p.info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		id := "Package-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(m.Path, "-")
		part := newPackage(id, m.Path, m.Version, of[m.Path])
		part.PrimaryPackagePurpose = "LIBRARY"
		url := "pkg:golang/" + m.Path + "@" + m.Version
		if m.Path == standardLibrary { // as vulnerability scanners know it
			url = "pkg:golang/stdlib@" + strings.TrimPrefix(m.Version, "go")
		}
		part.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}}
		if m.Sum != "" {
			part.PackageComment = "go.sum " + m.Sum
		}
		doc.Packages = append(doc.Packages, part)
		doc.Relationships = append(doc.Relationships, relation(programID, common.TypeRelationshipContains, id))
	}
	return doc
}

func newPackage(id, name, version string, l licence) *spdx.Package {
	declared := l.expression()
	declared = cmp.Or(declared, noAssertion)
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageCopyrightText: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: declared,
	}
}

func relation(from, kind, to string) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", from), Relationship: kind, RefB: common.MakeDocElementID("", to)}
}
