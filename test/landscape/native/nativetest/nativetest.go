// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package nativetest gives tests the images with programs that are not this project's.
package nativetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/native"
)

// users are those that the images name.
const users = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"

// EnvoyImage returns the folder of an image with envoy. A spec that cannot have it is skipped, and says what to do.
func EnvoyImage() string {
	ginkgo.GinkgoHelper()
	needsRoot()
	files, err := build.Envoy(context.Background(), landscape(), "/usr/local/bin/envoy")
	if err != nil {
		ginkgo.Skip("NOT TESTED, this needs envoy: hack/build-tools.sh envoy gets it: " + err.Error())
	}
	return unpack(files)
}

// EnvoyProgram returns the path of envoy. A spec that cannot have it is skipped, and says what to do.
func EnvoyProgram() string {
	ginkgo.GinkgoHelper()
	folder, err := build.Tool(context.Background(), landscape(), "envoy")
	if err != nil {
		ginkgo.Skip("NOT TESTED, this needs envoy: hack/build-tools.sh envoy gets it: " + err.Error())
	}
	return filepath.Join(folder, "envoy")
}

// OpenVPNImage returns the folder of an image with OpenVPN, and with the program at the other paths. A spec that cannot
// have it is skipped, and says what to do.
func OpenVPNImage(program string, paths ...string) string {
	ginkgo.GinkgoHelper()
	needsRoot()
	for _, file := range []string{"/usr/sbin/openvpn", "/sbin/ip", "/usr/sbin/xtables-nft-multi"} {
		if _, err := os.Stat(file); err != nil {
			ginkgo.Skip("NOT TESTED, this needs Debian's package: hack/setup.sh test installs it: " + err.Error())
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		ginkgo.Skip("NOT TESTED, this needs tun devices: " + err.Error())
	}
	files, err := native.OpenVPN()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for _, path := range paths {
		files = append(files, tarball.File{Path: path, Source: program})
	}
	return unpack(files)
}

func needsRoot() {
	ginkgo.GinkgoHelper()
	if os.Geteuid() != 0 {
		ginkgo.Skip("NOT TESTED, this needs root: namespaces and mounts")
	}
}

func unpack(files []tarball.File) string {
	ginkgo.GinkgoHelper()
	folder := ginkgo.GinkgoT().TempDir()
	// Programs that are not root's go through it.
	for parent := folder; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		gomega.Expect(os.Chmod(parent, 0o755)).To(gomega.Succeed()) // #nosec G302 -- It is a folder.
	}
	files = append(files, tarball.File{Path: "etc/passwd", Data: []byte(users), Mode: 0o644})
	gomega.Expect(native.Unpack(folder, files)).To(gomega.Succeed())
	return folder
}

// landscape is as much of a landscape's configuration as components are found by.
func landscape() *config.Config {
	ginkgo.GinkgoHelper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	cache := os.Getenv(config.EnvCache)
	if cache == "" {
		folder, err := os.UserCacheDir()
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		cache = filepath.Join(folder, "livecpm")
	}
	return &config.Config{Repo: strings.TrimSpace(string(root)), Cache: cache}
}
