// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// SBOMSuffix is what the name of a program is followed by in the name of its bill of materials.
const SBOMSuffix = ".cdx.json"

// Main is the module of livecpm itself.
const Main = "github.com/livecpm/livecpm"

// Subject is what a bill of materials is of.
type Subject struct {
	// Name and Version are those of the program.
	Name, Version string
	// Reference is the name under which the whole is known: the reference of an image, the name of an archive.
	Reference string
	// Digest is that of the image's manifest or of the archive.
	Digest string
	// Type tells what it is.
	Type cyclonedx.ComponentType
}

// WriteSBOM writes what a program consists of, in CycloneDX's form: the modules that the linker has put into it, which
// it tells itself, and the libraries of Go. Nothing else is in the images but the certificate authorities. The same
// content gives the same bytes, so there is no time in it, and its serial number comes from the digest.
func WriteSBOM(file, binary string, subject Subject) error {
	content, err := sbom(binary, subject)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o644); err != nil { // #nosec G306 -- To be read by everybody.
		return fmt.Errorf("failed to write the bill of materials of %s: %w", subject.Reference, err)
	}
	return nil
}

func sbom(binary string, subject Subject) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("failed to read what program %s is made of: %w", subject.Name, err)
	}
	document := cyclonedx.NewBOM()
	document.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(subject.Digest)).URN()
	document.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: subject.Reference, Type: subject.Type, Name: subject.Name, Version: subject.Version,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		Properties: &[]cyclonedx.Property{{Name: "livecpm:digest", Value: subject.Digest},
			{Name: "livecpm:go:package", Value: info.Path}},
	}}

	components := []cyclonedx.Component{component(Main, subject.Version),
		component("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		source := module
		if module.Replace != nil { // the code is the other one's
			source = module.Replace
		}
		one := component(source.Path, source.Version)
		one.Properties = checksum(source)
		components = append(components, one)
	}
	references := make([]string, 0, len(components))
	for _, one := range components {
		references = append(references, one.BOMRef)
	}
	document.Components = &components
	document.Dependencies = &[]cyclonedx.Dependency{{Ref: subject.Reference, Dependencies: &references}}

	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("failed to write the bill of materials of %s: %w", subject.Reference, err)
	}
	return out.Bytes(), nil
}

func component(module, version string) cyclonedx.Component {
	url := "pkg:golang/" + module + "@" + version
	return cyclonedx.Component{BOMRef: url, PackageURL: url, Type: cyclonedx.ComponentTypeLibrary, Name: module,
		Version: version, Scope: cyclonedx.ScopeRequired}
}

// checksum is that of go.sum. It is not the hash of a file, which is all that CycloneDX has a field for.
func checksum(module *debug.Module) *[]cyclonedx.Property {
	if module.Sum == "" {
		return nil
	}
	return &[]cyclonedx.Property{{Name: "livecpm:go:sum", Value: module.Sum}}
}
