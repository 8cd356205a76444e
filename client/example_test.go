package parley_test

import (
	"context"
	"fmt"
	"os"
	"time"

	parley "parley/client"
)

// A session: start a conversation, follow it to the end of its run, list what there
// is, and delete it. PARLEY_URL and PARLEY_API_KEY say which server.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := parley.New(os.Getenv("PARLEY_URL"), os.Getenv("PARLEY_API_KEY"))

	conversation, err := c.Start(ctx, parley.StartRequest{Message: "run echo hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Keep the number of the last event to go on from there another time.
	for event, err := range c.Events(ctx, conversation.ID, parley.FromStart) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch status, changed := event.Status(); {
		case event.Kind == "MessageEvent":
			fmt.Println("message:", event.Text())
		case status == parley.WaitingForConfirmation:
			err = c.Confirm(ctx, conversation.ID, true, "")
		case changed && status != parley.Running:
			fmt.Println("status:", status)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if status, _ := event.Status(); status == parley.Finished {
			break
		}
	}
	for each, err := range c.Conversations(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("conversation:", each.Title != "")
	}
	if err := c.Delete(ctx, conversation.ID); err != nil {
		fmt.Println(err)
	}
}
