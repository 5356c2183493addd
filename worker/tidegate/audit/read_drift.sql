select kind, name, kept, truth from tidegate.recount()
