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

// writeBills writes a bill of materials for each program: the modules that the linker has recorded
// in it, with their licences, and the version of Go. What is only in go.mod is not in the program,
// and not in the bill.
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

// noAssertion is the word of SPDX for what a document does not say.
const noAssertion = "NOASSERTION"

// bill makes the document for one program. sum, the SHA-256 of the program, makes the namespace of
// the document unique, as SPDX requires, and still the same for the same program. of has the
// licences by module.
func (r release) bill(p binary, sum string, of map[string]licence) *spdx.Document {
	// SPDX prescribes the identifier of the document.
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
	// The standard library is not among the modules, and scanners look for its vulnerabilities,
	// too.
	for _, m := range append([]*debug.Module{{Path: standardLibrary, Version: p.info.GoVersion}}, p.info.Deps...) {
		// What a module is replaced by is what was compiled.
		if m.Replace != nil {
			m = m.Replace
		}
		// Identifiers of SPDX allow only these characters.
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
		// The sum of go.sum is no checksum that SPDX knows, so it is a comment.
		if m.Sum != "" {
			part.PackageComment = "go.sum " + m.Sum
		}
		doc.Packages = append(doc.Packages, part)
		doc.Relationships = append(doc.Relationships, relation(programID, common.TypeRelationshipContains, id))
	}
	return doc
}

// newPackage makes a package of which only the declared licence is known: no one has checked that
// the code has no other.
func newPackage(id, name, version string, l licence) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageCopyrightText: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: cmp.Or(l.expression(), noAssertion),
	}
}

func relation(from, kind, to string) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", from), Relationship: kind, RefB: common.MakeDocElementID("", to)}
}
