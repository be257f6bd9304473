// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// EnvNodes names the environment variable with the number of nodes of each seed: 1 or 3. Without it, it is that of
	// the landscape that is up, and 1 if none is.
	EnvNodes = "LIVECPM_NODES"
	// EnvTolerance names the environment variable with the failure tolerance of the landscape's own shoot: node or
	// zone. Without it, it is that of the landscape that is up; if none is, zone with three nodes, and node with one.
	EnvTolerance = "LIVECPM_TOLERANCE"

	// nodesApart is the number of nodes of a seed whose nodes are real ones: a highly available control plane needs
	// three hosts.
	nodesApart = 3
	// nodesPrefix is the length of the prefix of the range of a seed's nodes.
	nodesPrefix = 28
)

// Tolerance is a failure tolerance of a shoot, in Gardener's words.
type Tolerance string

const (
	// ToleranceNode is that of a control plane with a host for each replica, all in one zone.
	ToleranceNode Tolerance = "node"
	// ToleranceZone is that of a control plane in three zones.
	ToleranceZone Tolerance = "zone"
)

// Node is a node of a seed.
type Node struct {
	// Name is the name of the node, its host name, and the beginning of the names of its daemons.
	Name string
	// Folder is that of what the node keeps, below the state folder.
	Folder string
	// Netns is the name of its network namespace.
	Netns string
	// Cgroup is the path of its cgroup in each hierarchy.
	Cgroup string
	// IP is its address.
	IP string
	// PodCIDR is the range of its pods, a part of that of the seed.
	PodCIDR string
	// Zone labels it.
	Zone string
}

// Apart reports whether the nodes have namespaces of their own, so that one of them can be lost without the seed's
// control plane.
func (s Seed) Apart() bool { return len(s.Nodes) > 1 }

// Node returns the node with the given name.
func (s Seed) Node(name string) (Node, error) {
	for _, node := range s.Nodes {
		if node.Name == name {
			return node, nil
		}
	}
	return Node{}, fmt.Errorf("%s has no node %q", s.Name, name)
}

// SetNodes gives each seed that many nodes, for a shoot that tolerates the loss of one or of a zone.
//
// Gardener puts a control plane that tolerates the loss of a node into one zone, and demands three hosts there; one
// that tolerates the loss of a zone demands three zones. So three nodes are in one zone or in three.
func (c *Config) SetNodes(number int, tolerance Tolerance) error {
	if number != 1 && number != nodesApart {
		return fmt.Errorf("%s is %d; give 1 or %d", EnvNodes, number, nodesApart)
	}
	switch tolerance {
	case ToleranceNode:
	case ToleranceZone:
		if number != nodesApart {
			return fmt.Errorf("%s is %s, which needs three zones: set %s to %d", EnvTolerance, tolerance, EnvNodes,
				nodesApart)
		}
	default:
		return fmt.Errorf("%s is %q; give %s or %s", EnvTolerance, tolerance,
			ToleranceNode, ToleranceZone)
	}
	c.Tolerance = tolerance
	for i := range c.Seeds {
		c.Seeds[i].setNodes(number, tolerance)
	}
	return nil
}

func (s *Seed) setNodes(number int, tolerance Tolerance) {
	s.Zones, s.NodeCIDR = []string{"0"}, s.IP+"/32"
	if number == 1 {
		s.Nodes = []Node{{Name: s.Name, Folder: s.Name, Netns: s.Netns, Cgroup: s.Netns, IP: s.IP, PodCIDR: s.PodCIDR,
			Zone: s.Zones[0]}}
		return
	}
	// The ranges begin at 32 and 48: before them are the clusters and their gateways.
	network, first := s.IP[:strings.LastIndexByte(s.IP, '.')], 16*(s.Index+1)
	s.NodeCIDR = fmt.Sprintf("%s.%d/%d", network, first, nodesPrefix)
	s.Nodes = nil
	for i := 1; i <= number; i++ {
		zone := s.Zones[0]
		if tolerance == ToleranceZone {
			zone = strconv.Itoa(i - 1)
		}
		name := fmt.Sprintf("%s-%d", s.Name, i)
		s.Nodes = append(s.Nodes, Node{
			Name:    name,
			Folder:  filepath.Join(s.Name, name),
			Netns:   fmt.Sprintf("%s-%d", s.Netns, i),
			Cgroup:  filepath.Join(s.Netns, name),
			IP:      fmt.Sprintf("%s.%d", network, first+i),
			PodCIDR: fmt.Sprintf("%s.%d.0/24", strings.TrimSuffix(s.PodCIDR, ".0.0/16"), i),
			Zone:    zone,
		})
		if !slices.Contains(s.Zones, zone) {
			s.Zones = append(s.Zones, zone)
		}
	}
}

// readNodes reads the values of EnvNodes and EnvTolerance.
func (c *Config) readNodes(nodes, tolerance string) error {
	recordedNodes, recordedTolerance, err := c.recordedNodes()
	if err != nil {
		return err
	}
	if nodes == "" {
		nodes = recordedNodes
	}
	number := 1
	if nodes != "" {
		if number, err = strconv.Atoi(nodes); err != nil {
			return fmt.Errorf("%s is %q, not a number of nodes; give 1 or %d", EnvNodes, nodes, nodesApart)
		}
	}
	if tolerance == "" {
		tolerance = recordedTolerance
	}
	if tolerance == "" {
		tolerance = string(ToleranceNode)
		if number == nodesApart {
			tolerance = string(ToleranceZone)
		}
	}
	if number == nodesApart && c.HasWorkers() {
		return fmt.Errorf("%s is %s, whose machines share a bridge on a node: set %s to 1", EnvShoot, c.Shoot,
			EnvNodes)
	}
	return c.SetNodes(number, Tolerance(tolerance))
}

// RecordNodes keeps how many nodes the seeds of the landscape have, and what its shoot tolerates, until the landscape
// is taken down. It is an error if they have others: the pods would be where they were.
func (c *Config) RecordNodes() error {
	nodes, tolerance, err := c.recordedNodes()
	if err != nil {
		return err
	}
	number := strconv.Itoa(len(c.Seeds[0].Nodes))
	if nodes == number && tolerance == string(c.Tolerance) {
		return nil
	}
	if nodes != "" {
		return fmt.Errorf("the landscape is up with %s nodes in each seed for failure tolerance %q, not with %s "+
			"for %q: take it down first (make landscape-down), or leave %s and %s unset", nodes, tolerance, number,
			c.Tolerance, EnvNodes, EnvTolerance)
	}
	if err := os.WriteFile(c.nodesRecord(), []byte(number+" "+string(c.Tolerance)), 0o644); err != nil {
		return fmt.Errorf("failed to record the landscape's nodes: %w", err)
	}
	return nil
}

func (c *Config) recordedNodes() (nodes, tolerance string, err error) {
	content, err := readRecord(c.nodesRecord(), "how many nodes the landscape has")
	nodes, tolerance, _ = strings.Cut(content, " ")
	return nodes, tolerance, err
}

func (c *Config) nodesRecord() string { return c.Dir("nodes-variant") }
