// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package gardenletconfig takes over what the agent has to share with the gardenlet of its seed, where the agent's
// chart cannot know what that is called: the gardenlet's chart names its ConfigMaps by their content.
//
// Read looks at the gardenlet's Deployment and at what it refers to. Write puts the result into a folder, before the
// agent starts: the image vector overwrites have to be there when the process begins. Keeper runs in the agent and
// keeps the folder up to date. When something changes that the agent reads only once, it ends the agent, which begins
// again with the new files.
package gardenletconfig
