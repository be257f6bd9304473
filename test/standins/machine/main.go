// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command machine stands in for the image of provider-local's machines, which is not available: the pod that
// provider-local's machine driver makes for a Machine runs it and becomes a hollow node of the shoot (see package
// hollow). The pod's own address is of no use to the shoot, whose nodes have a range of their own; the machine gives
// itself one of that range on the bridge that all machines share.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/standins/machine/hollow"
)

const (
	// userData is where provider-local mounts it, folder outlives a restart of the container.
	userData = "/etc/machine/userdata"
	folder   = "/run/hollow-node"
	// images is where the machine has the images of the containers that it runs.
	images = "/images"
	// device is the pod's interface.
	device = "eth0"
	// bootTime is how long a machine takes until it joins. Machine-controller-manager takes a Node that is there before
	// the machine's creation has returned for one of a former machine, and replaces the machine; provider-local looks
	// every five seconds whether it runs.
	bootTime = 20 * time.Second
	// nodesCIDR and podsCIDR are the ranges of the nodes and pods of the landscape's shoot, which its manifest names,
	// too.
	nodesCIDR = "10.180.0.0/16"
	podsCIDR  = "10.181.0.0/16"
)

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	runtimelog.SetLogger(log)
	klog.SetLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "Failed")
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, log logr.Logger) error {
	script, err := os.ReadFile(userData)
	if err != nil {
		return fmt.Errorf("failed to read the user data: %w", err)
	}
	data, err := hollow.ParseUserData(string(script))
	if err != nil {
		return err
	}
	name := os.Getenv("NODE_NAME")
	if name == "" {
		return errors.New("the environment has no NODE_NAME")
	}
	links := &netlink.Handle{}
	ip, err := hollow.OwnAddress(links, device, netip.MustParsePrefix(nodesCIDR))
	if err != nil {
		return err
	}
	if err := hollow.RouteToPods(links, device, netip.MustParsePrefix(podsCIDR)); err != nil {
		return err
	}
	if err := boot(ctx); err != nil {
		return err
	}
	node := &hollow.Node{Log: log, Data: data, Name: name, IP: ip, Folder: folder, Images: images, Links: links}
	return node.Run(ctx)
}

// boot takes its time when the machine is new, not when its container has been restarted.
func boot(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(folder, hollow.ReadyFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(bootTime):
		return nil
	}
}
