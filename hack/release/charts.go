// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/livecpm/livecpm/charts"
)

// What a release changes in a chart. In the repository, the charts are those of images that were just built.
var (
	chartVersion    = regexp.MustCompile(`(?m)^version: \S+$`)
	imageRepository = regexp.MustCompile(`(?m)^( *repository: )livecpm\.local/(\S+)$`)
	imageTag        = regexp.MustCompile(`(?m)^( *tag: )latest$`)
)

// packChart packs a chart with the version of the release, and with its images as the defaults of the values.
func packChart(chart string, options Options) ([]byte, error) {
	return charts.ArchiveWith(chart, func(file string, content []byte) ([]byte, error) {
		switch file {
		case path.Join(chart, "Chart.yaml"):
			if found := len(chartVersion.FindAll(content, -1)); found != 1 {
				return nil, fmt.Errorf("%s has %d versions, expected one", file, found)
			}
			return chartVersion.ReplaceAllLiteral(content,
				[]byte("version: "+strings.TrimPrefix(options.Version, "v")+"\nappVersion: "+options.Version)), nil
		case path.Join(chart, "values.yaml"):
			repositories, tags := len(imageRepository.FindAll(content, -1)), len(imageTag.FindAll(content, -1))
			if repositories == 0 || repositories != tags {
				return nil, fmt.Errorf("%s has %d repositories and %d tags of our images, expected as many of both",
					file, repositories, tags)
			}
			content = imageRepository.ReplaceAll(content, []byte("${1}"+options.Registry+"/${2}"))
			return imageTag.ReplaceAll(content, []byte("${1}"+options.Version)), nil
		}
		return content, nil
	})
}
