// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen_test

import (
	"bytes"
	"context"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/screen"
)

var _ = Describe("Terminal", func() {
	It("should show a screen until a key ends it", func() {
		src := &source{world: world("moving")}
		model := screen.NewMigration(context.Background(), "garden-demo/live", src, &steering{}).With(screen.Options{})
		var out bytes.Buffer
		terminal := screen.Terminal{In: strings.NewReader("q"), Out: &out}
		Expect(terminal.Run(context.Background(), model, screen.Options{})).To(Succeed())
		Expect(model.Err()).NotTo(HaveOccurred())
	})

	It("should end with the context, and say why", func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errEnough)
		model := screen.NewFleet(ctx, "all", &fleet{}, screen.Options{})
		in, _ := io.Pipe()
		terminal := screen.Terminal{In: in, Out: io.Discard}
		Expect(terminal.Run(ctx, model, screen.Options{Color: true})).To(MatchError(errEnough))
	})
})
