// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"os"

	. "github.com/onsi/gomega"
)

func read(file string) []byte {
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return content
}
